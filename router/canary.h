// Which of a model's tracks serves a request: the stable one, or a canary's, by its share.
//
// Pure. A request that belongs to a session always falls on the same side while the shares stay, and one that
// has fallen on a canary's side stays there when its share grows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace router {

// Endpoints of one label, over all models of a table; kStable are those without.
enum class TrackId : uint16_t {};
inline constexpr TrackId kStable{0};

// As configured.
struct CanarySpec {
  std::string track;
  double percent = 0;  // of the requests, 0 to 100
};

struct Canary {
  TrackId track;
  double percent;
};

// `key`: the session's, or a number at random where there is none.
TrackId TrackFor(std::span<const Canary> canaries, uint64_t key);

}  // namespace router
