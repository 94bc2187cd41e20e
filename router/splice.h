// The few bytes of a request body that a route changes: the model's name, the request for usage, the output
// bound. All else passes as it came. A plan holds positions and small texts; applying it gathers views and
// copies nothing.
//
// Pure; no allocation. Views that a plan was given (`upstream_model_json`) must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "router/facts.h"

namespace router {

// `remove` bytes at `at` give way to text().
class Splice {
 public:
  Splice() = default;
  Splice(size_t at, size_t remove, std::string_view insert) : at(at), remove(remove), outside_(insert) {}

  // `prefix` then `number` then `suffix`, kept inside the splice.
  static Splice Number(size_t at, size_t remove, std::string_view prefix, int64_t number,
                       std::string_view suffix);

  std::string_view text() const {
    return inside_size_ > 0 ? std::string_view(inside_.data(), inside_size_) : outside_;
  }

  size_t at = 0;
  size_t remove = 0;

 private:
  std::string_view outside_;
  std::array<char, 56> inside_;
  uint8_t inside_size_ = 0;
};

inline constexpr size_t kMaxSplices = 8;
inline constexpr size_t kMaxPieces = 2 * kMaxSplices + 1;

class SplicePlan {
 public:
  std::span<const Splice> splices() const { return {splices_.data(), size_}; }  // by position, disjoint
  bool empty() const { return size_ == 0; }

  size_t ResultSize(size_t body_size) const;

  // The spliced body as pieces in order; views into `body` and into this plan. Returns how many were filled.
  size_t Gather(std::string_view body, std::span<std::string_view, kMaxPieces> pieces) const;

  std::string Apply(std::string_view body) const;

  // Keeps the order; splices at one place keep the order in which they were added.
  void Add(const Splice& splice);

 private:
  std::array<Splice, kMaxSplices> splices_;
  size_t size_ = 0;
};

// What a route asks to be changed in a body.
struct SpliceRequest {
  std::string_view upstream_model_json{};  // quoted and escaped (QuoteJson); empty: the model's name stays
  bool ask_usage = true;                   // usage in the last event of a chat or completion stream
  std::optional<int64_t> output_cap{};     // bounds are lowered to it, or one is inserted
  std::string_view bound_key{};            // the member to insert; empty: the API's own (ApiSpec::bound)
  std::string_view members{};              // `"name":value,` of members that the body does not have
  bool only_prompt = false;                // the prompt is to be computed: one token, and no stream
};

SplicePlan PlanSplices(Api api, const BodyFacts& facts, const SpliceRequest& request);

}  // namespace router
