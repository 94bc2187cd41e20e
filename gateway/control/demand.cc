#include "gateway/control/demand.h"

#include <algorithm>

#include "gateway/exchange.h"

namespace gateway::control {
namespace {

constexpr double kMostWork = 86'400e9;  // of one request, ns

}  // namespace

uint64_t WorkOf(const Exchange& x) {
  const int64_t cached = x.model().estimate->Cached(x.prompt_tokens_est);
  const auto [output, written] = x.MeanOutput();
  const double seconds = scheduler::autoscale::WorkOf(
      x.model().outlook->capacity(), static_cast<double>(x.prompt_tokens_est - cached),
      static_cast<double>(x.prompt_tokens_est), output, written);
  return static_cast<uint64_t>(std::clamp(seconds * 1e9, 0.0, kMostWork));
}

}  // namespace gateway::control
