#include "gateway/control/replica.h"

#include <algorithm>
#include <array>

namespace gateway::control {

std::string_view Name(State state) {
  static constexpr std::array<std::string_view, kStates> kNames = {"waiting", "launching", "warming",
                                                                   "ready",   "draining",  "stopping"};
  return kNames[static_cast<size_t>(state)];
}

uint32_t Replica::in_flight() const {
  return load ? static_cast<uint32_t>(std::clamp<int64_t>(load->load.requests(), 0, UINT32_MAX)) : 0;
}

}  // namespace gateway::control
