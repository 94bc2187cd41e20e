#include "router/sim/adapter_traffic.h"

#include <algorithm>

#include "scheduler/rng.h"

namespace router::sim {
namespace {

// The block that identifies a conversation; earlier ones are shared by many.
constexpr size_t kOpening = 1024 / kBlockTokens;

}  // namespace

void DealOut(uint32_t adapters, std::vector<Request>& requests) {
  if (adapters == 0) return;
  std::vector<double> shares;  // cumulative
  double sum = 0;
  for (uint32_t k = 1; k <= adapters; ++k) shares.push_back(sum += 1.0 / k);
  for (Request& request : requests) {
    const size_t known = std::min(request.blocks.size(), kOpening);
    scheduler::Rng of_opening(known > 0 ? request.blocks[known - 1] : request.prompt_tokens);
    const double draw = of_opening.Double() * sum;
    request.adapter = static_cast<uint32_t>(std::ranges::lower_bound(shares, draw) - shares.begin()) + 1;
    request.adapter = std::min(request.adapter, adapters);
    scheduler::Rng of_adapter(request.adapter);
    const uint64_t salt = of_adapter.Next();
    for (uint64_t& block : request.blocks) block ^= salt;
  }
}

}  // namespace router::sim
