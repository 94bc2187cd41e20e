#include "router/load/headroom.h"

#include <algorithm>

namespace router {
namespace {

constexpr double kFullKv = 0.97;
// A queue is more than these, or than that part of the running requests: as for a veto of the `cost` policy.
constexpr double kFewQueued = 8;
constexpr double kFewOfRunning = 0.25;
// Waiting requests that are no queue while no first token has come.
constexpr double kUnmeasuredWaiting = 64;
// The part of `busy_for` that may be ahead of a prompt of any length.
constexpr double kAnyPrompt = 0.1;

}  // namespace

bool WaitsForBestReplica(const ModelSpec& model) {
  return model.headroom && model.policy == PolicyKind::kCost && !model.prefill_transfer;
}

bool IsFull(const ObservedSignals& s, const HeadroomLimits& limits) {
  const double most = limits.max_running > 0 ? limits.max_running : s.max_running;
  if (most > 0 && s.requests >= most) return true;
  const double observed = s.observed_batch_limit;
  return observed > 0 && s.requests >= observed + std::max(kFewQueued, kFewOfRunning * observed);
}

bool HasHeadroom(const ObservedSignals& s, const HeadroomLimits& limits, const PromptSplit& prompt,
                 WaitsFor waits) {
  if (s.requests < 1) return true;
  if (IsFull(s, limits) || s.kv_use >= kFullKv) return false;
  const bool any = waits == WaitsFor::kAnyReplica;
  const double busy_for = conf::ToSeconds(limits.busy_for);
  const double before_any = any ? busy_for : kAnyPrompt * busy_for;
  const double own = prompt.uncached / s.prefill_rate;
  const double saved = prompt.cached / s.prefill_rate;
  const double before = std::max(before_any, busy_for - own) + (any ? s.uncontended : s.latency) + saved;
  if (s.rate_measured && s.backlog >= before * s.prefill_rate) return false;
  const double wait = before_any + s.uncontended + saved;
  const double few = s.first_tokens > 0 ? std::max(kFewQueued, wait * s.first_tokens) : kUnmeasuredWaiting;
  return s.waiting < few;
}

bool HasHeadroom(const ModelSpec& model, const ReplicaSpec& replica, const ObservedSignals& seen,
                 const PromptSplit& prompt) {
  if (!model.headroom) return true;
  const WaitsFor waits = WaitsForBestReplica(model) ? WaitsFor::kBestReplica : WaitsFor::kAnyReplica;
  if (replica.headroom_known) return HasHeadroom(seen, *model.headroom, prompt, waits);
  return model.headroom->max_running <= 0 || seen.requests < model.headroom->max_running;
}

bool IsFull(const ModelSpec& model, const ReplicaSpec& replica, const ObservedSignals& seen) {
  if (!model.headroom || seen.requests < 1) return false;
  if (replica.headroom_known) return IsFull(seen, *model.headroom);
  return model.headroom->max_running > 0 && seen.requests >= model.headroom->max_running;
}

}  // namespace router
