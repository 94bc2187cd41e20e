// MessageBatch: a batch of messages and its results as Anthropic's API shows them.
//
// It is a batch like any other (batch.h), with kMessagesUrl as its endpoint. All its results are in one file:
// lines that failed, too.
//
// Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "gateway/batches/batch.h"
#include "gateway/batches/result_files.h"

namespace gateway::batches {

nlohmann::ordered_json ShowMessageBatch(const Batch& batch);

// One line of JSON, with its end: `succeeded`, `errored`, `canceled` or `expired`.
std::string RenderMessageResult(const LineResult& result);

}  // namespace gateway::batches
