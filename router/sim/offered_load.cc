#include "router/sim/offered_load.h"

#include <algorithm>
#include <utility>

#include "scheduler/autoscale/capacity.h"
#include "scheduler/rng.h"

namespace router::sim {
namespace {

uint64_t Chained(uint64_t before, uint64_t block) {
  return scheduler::Rng(before ^ (block * 0x9e3779b97f4a7c15u)).Next();
}

}  // namespace

std::vector<Request> RequestsOf(std::span<const Call> calls) {
  std::vector<Request> requests;
  requests.reserve(calls.size());
  for (const Call& call : calls) {
    Request request{.at = call.at, .prompt_tokens = call.input, .output_tokens = call.output, .blocks = {}};
    if (request.prompt_tokens == 0 || request.output_tokens == 0) continue;
    uint64_t chain = 0;
    uint32_t left = call.input;
    for (const uint64_t id : call.blocks) {
      for (uint32_t i = 0; i < kTrafficBlockTokens / kBlockTokens && left >= kBlockTokens; ++i) {
        chain = Chained(chain, id * 64 + i + 1);
        request.blocks.push_back(chain);
        left -= kBlockTokens;
      }
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Request> Faster(std::vector<Request> requests, double factor) {
  for (Request& request : requests) {
    request.at = conf::Duration(static_cast<int64_t>(static_cast<double>(request.at.count()) / factor));
  }
  return requests;
}

double DemandSeconds(std::span<const Request> requests, const scheduler::engine::Profile& profile,
                     double hits) {
  const scheduler::autoscale::Capacity capacity = scheduler::autoscale::CapacityOf(profile);
  double seconds = 0;
  for (const Request& request : requests) {
    seconds += scheduler::autoscale::WorkOf(capacity, request.prompt_tokens * (1 - hits),
                                            request.prompt_tokens, request.output_tokens);
  }
  return seconds;
}

double SpeedUpFor(double load, double replicas, std::span<const Request> requests,
                  const scheduler::engine::Profile& profile, double hits) {
  return load * replicas * conf::ToSeconds(requests.back().at) / DemandSeconds(requests, profile, hits);
}

}  // namespace router::sim
