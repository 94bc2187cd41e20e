#include "scheduler/queues/fair_share.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace scheduler {
namespace {

__extension__ using Wide = __int128;

bool HasEnough(const FairShareClaim* claim) {
  return claim->share >= claim->wanted;
}

// More is promised than is available: all claims get less in proportion.
void ScaleDown(std::span<FairShareClaim> claims, int64_t promised, int64_t total) {
  int64_t rest = total;
  for (FairShareClaim& claim : claims) {
    claim.share = static_cast<int64_t>(Wide{claim.share} * total / promised);
    rest -= claim.share;
  }
  for (FairShareClaim& claim : claims) {
    if (rest == 0) break;
    if (claim.share >= std::min(claim.deserved, claim.wanted)) continue;
    ++claim.share;
    --rest;
  }
}

void DivideRest(std::span<FairShareClaim> claims, int64_t rest) {
  std::vector<FairShareClaim*> asking;
  for (FairShareClaim& claim : claims) {
    if (!HasEnough(&claim) && claim.weight > 0) asking.push_back(&claim);
  }
  std::vector<double> corrected;
  while (rest > 0 && !asking.empty()) {
    double weights = 0;
    double usage = 0;
    for (const FairShareClaim* claim : asking) {
      weights += claim->weight;
      usage += static_cast<double>(claim->usage);
    }
    corrected.clear();
    for (const FairShareClaim* claim : asking) {
      const double weight = claim->weight / weights;
      const double used = usage > 0 ? static_cast<double>(claim->usage) / usage : weight;
      corrected.push_back(std::max(0.0, weight + (weight - used)));
    }
    const double sum = std::accumulate(corrected.begin(), corrected.end(), 0.0);
    int64_t given = 0;
    for (size_t i = 0; i < asking.size(); ++i) {
      FairShareClaim& claim = *asking[i];
      const auto part = static_cast<int64_t>(static_cast<double>(rest) * (corrected[i] / sum));
      const int64_t take = std::min({part, claim.wanted - claim.share, rest - given});
      claim.share += take;
      given += take;
    }
    rest -= given;
    if (std::erase_if(asking, HasEnough) > 0) continue;
    for (size_t i = 0; i < asking.size() && rest > 0; ++i) {  // what rounding left
      if (corrected[i] == 0) continue;
      ++asking[i]->share;
      --rest;
    }
    break;
  }
}

}  // namespace

void DivideFairly(std::span<FairShareClaim> claims, int64_t total) {
  int64_t promised = 0;
  for (FairShareClaim& claim : claims) {
    claim.share = std::min(claim.deserved, claim.wanted);
    promised += claim.share;
  }
  if (promised > total) return ScaleDown(claims, promised, total);
  int64_t rest = total;
  for (const FairShareClaim& claim : claims) rest -= std::max(claim.share, claim.kept);
  DivideRest(claims, rest);
}

}  // namespace scheduler
