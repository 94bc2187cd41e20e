// Headroom: whether a replica can begin one more request soon. Engines are kept just full enough: a request that an
// engine cannot begin at once only waits in it, where it cannot be cancelled cheaply, reordered, or given to a replica
// that becomes free.
//
// A replica has no headroom when something observed says so; a guess never does:
//   - it runs as many requests as the operator or its engine allows;
//   - it holds a quarter more than it ran when requests were seen to queue in it (ObservedBatchLimit);
//   - its engine says that its KV cache is full;
//   - our streams wait there: their backlog divided by the measured prefill rate, or their number divided by
//     the first tokens per second, is longer than `busy_for` beyond what an uncontended request takes. Up to
//     eight waiting requests are no queue, nor 64 where no first token has been seen yet.
//
// Where requests wait at the gateway for the replica that serves each best (WaitsForBestReplica), a tenth of
// `busy_for` is enough to keep the engine busy, and what waits at the gateway can still be reordered. Short
// prompts may go beyond that until the backlog and their own prefill together take `busy_for`: an engine
// computes many short prompts in one step, so they had better be there for it.
//
// So requests that are not streamed fill a replica only up to a number that is configured or that its engine
// was seen to reach. An idle replica always has headroom, whatever the measurements say; so does a provider
// below the operator's max_running. Pure functions.
#pragma once

#include <cstdint>

#include "router/load/engine_signals.h"
#include "router/routes/route_table.h"

namespace router {

// Whether a queued request waits for any replica with headroom, or for the one that serves it best.
enum class WaitsFor : uint8_t { kAnyReplica, kBestReplica };

// The new request's prompt as this replica sees it, in tokens.
struct PromptSplit {
  double cached = 0;  // held by this replica, which may be busier by the time that computing them would take
  double uncached = 0;  // to be computed
};

// Whether requests of this model wait for the replica that serves each best, as DispatchPlan plans it.
bool WaitsForBestReplica(const ModelSpec& model);

bool HasHeadroom(const ObservedSignals& seen, const HeadroomLimits& limits, const PromptSplit& prompt = {},
                 WaitsFor waits = WaitsFor::kAnyReplica);
// The same for a replica of a model, which may be a provider. True where the model has no HeadroomLimits.
bool HasHeadroom(const ModelSpec& model, const ReplicaSpec& replica, const ObservedSignals& seen,
                 const PromptSplit& prompt = {});

// Whether it runs as many requests as it can: it has no headroom until an answer ends, however soon its
// prompts are computed.
bool IsFull(const ObservedSignals& seen, const HeadroomLimits& limits);
bool IsFull(const ModelSpec& model, const ReplicaSpec& replica, const ObservedSignals& seen);

}  // namespace router
