// The figures of /engine/stats, for assertions of tests: how requests ended, and the last one byte for byte.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/net/http/server.h"
#include "tools/engine/api.h"
#include "tools/engine/engine.h"
#include "tools/engine/fault.h"
#include "tools/engine/handover.h"

namespace tidegate_engine {

class Stats {
 public:
  static constexpr size_t kKeptBody = 64 * 1024;

  // A request to a model API, as received.
  void Received(Api api, gateway::net::http::Exchange& exchange);
  void Refused() { ++refused_; }           // answered with an error of the engine's own
  void Faulted() { ++faulted_; }           // answered by a fault
  void LeftHanging() { ++left_hanging_; }  // the client left while a fault held the request
  void Undelivered() { ++undelivered_; }   // generated, but the client left before it was sent

  std::string Render(const Engine& engine, std::span<const std::string> loras, const Faults& faults,
                     const HandoverCounts& handovers, size_t held, size_t connections) const;

 private:
  Json LastRequest() const;

  uint64_t received_ = 0;
  uint64_t refused_ = 0;
  uint64_t faulted_ = 0;
  uint64_t left_hanging_ = 0;
  uint64_t undelivered_ = 0;
  std::array<uint64_t, static_cast<size_t>(Api::kUnknown) + 1> by_api_{};

  std::string method_;
  std::string target_;
  std::vector<std::pair<std::string, std::string>> headers_;
  size_t header_count_ = 0;  // of headers_, whose strings are kept for reuse
  std::string body_;
  size_t body_bytes_ = 0;
  std::string body_sha256_;  // only of bodies longer than kKeptBody, of which not all is here
};

}  // namespace tidegate_engine
