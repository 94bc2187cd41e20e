#include "gateway/batches/batch.h"

#include <nlohmann/json.hpp>

#include "conf/json_fields.h"
#include "gateway/batches/stored_file.h"
#include "gateway/people/stored_json.h"

namespace gateway::batches {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kVersion = "/v1";

constexpr conf::Word<BatchState> kStates[] = {
    {"validating", BatchState::kValidating}, {"in_progress", BatchState::kInProgress},
    {"cancelling", BatchState::kCancelling}, {"completed", BatchState::kCompleted},
    {"failed", BatchState::kFailed},         {"expired", BatchState::kExpired},
    {"cancelled", BatchState::kCancelled}};

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
Json TimeOrNull(const std::optional<conf::TimePoint>& at) {
  return at ? Json(UnixSeconds(*at)) : Json(nullptr);
}

Json ShowProblems(const std::vector<BatchProblem>& problems) {
  if (problems.empty()) return nullptr;
  Json data = Json::array();
  for (const BatchProblem& problem : problems) {
    data.push_back({{"code", problem.code},
                    {"message", problem.message},
                    {"param", TextOrNull(problem.param)},
                    {"line", problem.line ? Json(*problem.line) : Json(nullptr)}});
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace

std::optional<router::Api> ApiOf(std::string_view endpoint) {
  using enum router::Api;
  for (const router::Api api : {kChatCompletions, kCompletions, kEmbeddings, kResponses, kMessages}) {
    const std::string_view path = router::SpecOf(api).path;
    if (endpoint.starts_with(kVersion) && endpoint.substr(kVersion.size()) == path) return api;
  }
  return std::nullopt;
}

conf::Words<BatchState> WordsOf(BatchState) {
  return kStates;
}

std::string_view NameOf(BatchState state) {
  return conf::WordOf(kStates, state);
}

void BatchUsage::Add(const BatchUsage& other) {
  input += other.input;
  cached += other.cached;
  output += other.output;
  reasoning += other.reasoning;
}

template <class O>
constexpr void Bind(O& o, BatchProblem& problem) {
  o.Required("code", problem.code);
  o.Required("message", problem.message);
  o.Optional("param", problem.param);
  o.Optional("line", problem.line);
}

template <class O>
constexpr void Bind(O& o, BatchUsage& usage) {
  o.Optional("input", usage.input);
  o.Optional("cached", usage.cached);
  o.Optional("output", usage.output);
  o.Optional("reasoning", usage.reasoning);
}

template <class O>
constexpr void Bind(O& o, LineCounts& counts) {
  o.Optional("total", counts.total);
  o.Optional("completed", counts.completed);
  o.Optional("failed", counts.failed);
  o.Optional("unsent", counts.unsent);
}

template <class O>
constexpr void Bind(O& o, Batch& batch) {
  o.Required("id", batch.id);
  o.Required("tenant", batch.tenant);
  o.Optional("key", batch.key);
  o.Required("endpoint", batch.endpoint);
  o.Required("input_file", batch.input_file);
  o.Optional("output_file", batch.output_file);
  o.Optional("error_file", batch.error_file);
  o.Optional("sealed_by", batch.sealed_by);
  o.Always("state", batch.state);
  o.Required("created", batch.created);
  o.Required("expires", batch.expires);
  o.Optional("window", batch.window);
  o.Optional("in_progress", batch.in_progress);
  o.Optional("cancelling", batch.cancelling);
  o.Optional("finalizing", batch.finalizing);
  o.Optional("ended", batch.ended);
  o.Optional("counts", batch.counts);
  o.Optional("usage", batch.usage);
  o.Optional("metadata", batch.metadata);
  o.Optional("output_age", batch.output_age);
  o.Optional("problems", batch.problems);
  o.Optional("runner", batch.runner);
  o.Optional("epoch", batch.epoch);
  o.Optional("output_parts", batch.output_parts);
  o.Optional("error_parts", batch.error_parts);
  o.Optional("paused", batch.paused);
  o.NotWritten(batch.shared);
}

bool Batch::of_messages() const {
  return endpoint == kMessagesUrl;
}

std::string EncodeBatch(const Batch& batch) {
  return conf::ToJsonText(batch);
}

absl::StatusOr<Batch> DecodeBatch(std::string_view json) {
  return ReadStored<Batch>("batch", json);
}

Json ShowBatch(const Batch& batch) {
  const auto at_end = [&](BatchState state) {
    return batch.state == state ? TimeOrNull(batch.ended) : Json(nullptr);
  };
  const bool ended = HasEnded(batch.state);
  Json shown{{"id", batch.id},
             {"object", "batch"},
             {"endpoint", batch.endpoint},
             {"errors", ShowProblems(batch.problems)},
             {"input_file_id", batch.input_file},
             {"completion_window", batch.window},
             {"status", NameOf(batch.state)},
             {"output_file_id", ended ? TextOrNull(batch.output_file) : Json(nullptr)},
             {"error_file_id", ended ? TextOrNull(batch.error_file) : Json(nullptr)},
             {"created_at", UnixSeconds(batch.created)},
             {"in_progress_at", TimeOrNull(batch.in_progress)},
             {"expires_at", UnixSeconds(batch.expires)},
             {"finalizing_at", TimeOrNull(batch.finalizing)},
             {"completed_at", at_end(BatchState::kCompleted)},
             {"failed_at", at_end(BatchState::kFailed)},
             {"expired_at", at_end(BatchState::kExpired)},
             {"cancelling_at", TimeOrNull(batch.cancelling)},
             {"cancelled_at", at_end(BatchState::kCancelled)},
             {"request_counts",
              {{"total", batch.counts.total},
               {"completed", batch.counts.completed},
               {"failed", batch.counts.failed}}},
             {"usage",
              {{"input_tokens", batch.usage.input},
               {"input_tokens_details", {{"cached_tokens", batch.usage.cached}}},
               {"output_tokens", batch.usage.output},
               {"output_tokens_details", {{"reasoning_tokens", batch.usage.reasoning}}},
               {"total_tokens", batch.usage.input + batch.usage.output}}}};
  if (!batch.paused.empty() && !ended) shown["tidegate"] = {{"paused", batch.paused}};
  shown["metadata"] = batch.metadata.empty() ? Json(nullptr) : Json(batch.metadata);
  return shown;
}

}  // namespace gateway::batches
