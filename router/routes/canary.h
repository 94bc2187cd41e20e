// Which of a model's tracks serves a request: the stable one, or a canary's by its share.
//
// Pure. All requests of a session stay on one side while the shares stay, and a session on a canary's side
// stays there when that share grows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace router {

// Number of a track label, over all models of a table. kStable: the replicas without a label.
enum class TrackId : uint16_t {};
inline constexpr TrackId kStable{0};

// As configured.
struct CanarySpec {
  std::string track;
  double percent = 0;         // of the requests, 0 to 100
  bool may_be_empty = false;  // no replica may have its track yet: stable ones serve its share meanwhile
};

struct Canary {
  TrackId track;
  double percent;
};

// `key`: the session's hash, or a random number for a request without a session.
TrackId TrackFor(std::span<const Canary> canaries, uint64_t key);

}  // namespace router
