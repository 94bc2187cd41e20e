// Whether a replica can take a spare request without much delay for others. No client waits for a spare request.
// It delays others in three ways: its prompt is computed before later prompts, each answer makes every step
// longer, and it holds a place and a part of the KV cache until it ends. So it goes only to a replica that
// computes no prompt and has places and KV cache left, and where the operator bounds the time between two tokens, only
// while tokens come that fast.
//
// Unlike headroom this trusts estimates, because a spare request may wait. An idle replica has room, whatever the
// measurements say. Pure.
#pragma once

#include "router/load/engine_signals.h"
#include "router/routes/headroom_limits.h"

namespace router {

bool HasSpareRoom(const ReplicaSignals& signals, const ObservedSignals& seen, const HeadroomLimits& limits);

}  // namespace router
