// The few bytes of a request body that a route changes: the model's name, the usage option, the output bound.
// All other bytes pass as they came. A plan holds positions and small texts; applying it gathers views and
// copies nothing.
//
// Pure; no allocation. Views given to a plan (`upstream_model_json`) must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "router/facts/body_facts.h"

namespace router {

// Replaces `remove` bytes at `at` by text().
class Splice {
 public:
  Splice() = default;
  Splice(size_t at, size_t remove, std::string_view insert) : at(at), remove(remove), outside_(insert) {}

  // Inserts `prefix`, `number` and `suffix`, which the splice stores itself.
  static Splice Number(size_t at, size_t remove, std::string_view prefix, int64_t number,
                       std::string_view suffix);

  // Likewise; together at most 56 bytes.
  static Splice Text(size_t at, size_t remove, std::string_view prefix, std::string_view text,
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

inline constexpr size_t kMaxSplices = 12;
inline constexpr size_t kMaxPieces = 2 * kMaxSplices + 1;

class SplicePlan {
 public:
  std::span<const Splice> splices() const { return {splices_.data(), size_}; }  // by position, disjoint
  bool empty() const { return size_ == 0; }

  size_t ResultSize(size_t body_size) const;

  // The spliced body as pieces in order: views into `body` and into this plan. Returns their number.
  size_t Gather(std::string_view body, std::span<std::string_view, kMaxPieces> pieces) const;

  std::string Apply(std::string_view body) const;

  // Inserts by position; splices at one position keep the order in which they were added.
  void Add(const Splice& splice);

 private:
  std::array<Splice, kMaxSplices> splices_;
  size_t size_ = 0;
};

// The changes that a route wants in a body.
struct SpliceRequest {
  std::string_view upstream_model_json{};  // quoted and escaped (conf::Quoted); empty: the model's name stays
  bool ask_usage = true;                   // usage in the last event of a stream
  std::optional<int64_t> output_cap{};     // larger bounds are lowered to it; without a bound one is inserted
  std::string_view bound_key{};            // the member to insert; empty: the API's own (ApiSpec::bound)
  std::string_view members{};              // `"name":value,` to insert; members that the body lacks
  // The salt of the engine's cache, in characters that need no escape; empty: none is added. The caller's own
  // follows it.
  std::string_view cache_salt{};
  bool only_prompt = false;  // only compute the prompt: one token, no stream
};

SplicePlan PlanSplices(Api api, const BodyFacts& facts, const SpliceRequest& request);

}  // namespace router
