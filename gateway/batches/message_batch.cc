#include "gateway/batches/message_batch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace gateway::batches {
namespace {

using Json = nlohmann::ordered_json;

Json MomentOrNull(const std::optional<conf::TimePoint>& at) {
  return at ? Json(conf::FormatTime(*at)) : Json(nullptr);
}

std::string_view StatusOf(BatchState state) {
  if (HasEnded(state)) return "ended";
  return state == BatchState::kCancelling ? "canceling" : "in_progress";
}

}  // namespace

Json ShowMessageBatch(const Batch& batch) {
  const bool ended = HasEnded(batch.state);
  const LineCounts& counts = batch.counts;
  const auto unsent_if = [&](BatchState state) { return batch.state == state ? counts.unsent : 0; };
  const uint64_t canceled = unsent_if(BatchState::kCancelled);
  const uint64_t expired = unsent_if(BatchState::kExpired);
  Json shown{{"id", batch.id},
             {"type", "message_batch"},
             {"processing_status", StatusOf(batch.state)},
             {"request_counts",
              {{"processing", ended ? 0 : counts.total - counts.completed - counts.failed},
               {"succeeded", counts.completed},
               {"errored", counts.failed - canceled - expired},
               {"canceled", canceled},
               {"expired", expired}}},
             {"created_at", conf::FormatTime(batch.created)},
             {"expires_at", conf::FormatTime(batch.expires)},
             {"ended_at", MomentOrNull(batch.ended)},
             {"cancel_initiated_at", MomentOrNull(batch.cancelling)},
             {"archived_at", nullptr}};
  const bool has_results = ended && !batch.output_file.empty();
  shown["results_url"] =
      has_results ? Json(fmt::format("{}/batches/{}/results", kMessagesUrl, batch.id)) : Json(nullptr);
  if (!batch.paused.empty() && !ended) shown["tidegate"] = {{"paused", batch.paused}};
  return shown;
}

}  // namespace gateway::batches
