// MessageBatch: a batch of messages as Anthropic's API shows it. It is a batch like any other, with kMessagesUrl
// as its endpoint.
//
// Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gateway/batches/batch.h"

namespace gateway::batches {

nlohmann::ordered_json ShowMessageBatch(const Batch& batch);

}  // namespace gateway::batches
