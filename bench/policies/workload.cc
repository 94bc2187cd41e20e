#include "bench/policies/workload.h"

#include <utility>

#include "scheduler/rng.h"

namespace bench::policies {
namespace {

uint64_t Chained(uint64_t before, uint64_t block) {
  return scheduler::Rng(before ^ (block * 0x9e3779b97f4a7c15u)).Next();
}

}  // namespace

absl::StatusOr<std::vector<router::sim::Request>> ReadRequests(const std::string& path, TraceFormat format) {
  const auto calls = ReadTrace(path, format, {});
  if (!calls.ok()) return calls.status();
  std::vector<router::sim::Request> requests;
  requests.reserve(calls->size());
  for (const Call& call : *calls) {
    router::sim::Request request{
        .at = call.at, .prompt_tokens = call.input, .output_tokens = call.output, .blocks = {}};
    if (request.prompt_tokens == 0 || request.output_tokens == 0) continue;
    uint64_t chain = 0;
    uint32_t left = call.input;
    for (const uint64_t id : call.blocks) {
      for (uint32_t i = 0; i < kBlockTokens / router::sim::kBlockTokens && left >= router::sim::kBlockTokens;
           ++i) {
        chain = Chained(chain, id * 64 + i + 1);
        request.blocks.push_back(chain);
        left -= router::sim::kBlockTokens;
      }
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<router::sim::Request> Faster(std::vector<router::sim::Request> requests, double factor) {
  for (router::sim::Request& request : requests) {
    request.at = conf::Duration(static_cast<int64_t>(static_cast<double>(request.at.count()) / factor));
  }
  return requests;
}

}  // namespace bench::policies
