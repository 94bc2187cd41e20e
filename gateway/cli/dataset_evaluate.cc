// tidegate dataset evaluate: asks models for the answers to a data set, as a batch of the gateway's, and shows the
// answers side by side.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "conf/json_fields.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/public_client.h"
#include "gateway/datasets/comparison.h"
#include "gateway/datasets/evaluation.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using datasets::ComparedExample;
using datasets::Comparison;
using nlohmann::ordered_json;

constexpr size_t kMostSet = 200 << 20;  // bytes
constexpr auto kFollow = std::chrono::milliseconds(500);
constexpr auto kHintAfter = std::chrono::seconds(20);  // without an answer

struct EvaluateOptions {
  std::string set;
  std::vector<std::string> models;
  std::string batch;  // that was made before
  PublicOptions api;
  std::string html;
  int64_t max_tokens = 0;
  size_t width = 100;
  bool remove = false;
  bool json = false;
};

std::string TextIn(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string UploadForm(std::string_view purpose, std::string_view name, std::string_view text,
                       const std::string& boundary) {
  return fmt::format(
      "--{0}\r\ncontent-disposition: form-data; "
      "name=\"purpose\"\r\n\r\n{1}\r\n--{0}\r\ncontent-disposition: "
      "form-data; name=\"file\"; filename=\"{2}\"\r\ncontent-type: "
      "application/jsonl\r\n\r\n{3}\r\n--{0}"
      "--\r\n",
      boundary, purpose, name, text);
}

// The id of the new file.
absl::StatusOr<std::string> Upload(const PublicClient& api, std::string_view purpose, std::string_view name,
                                   std::string_view text) {
  // It stands after CR LF, and no line of JSON has a CR.
  const std::string boundary = "tidegate-evaluation-7f1c0a5e";
  const auto file = api.AskJson("POST", "/v1/files", UploadForm(purpose, name, text, boundary),
                                fmt::format("multipart/form-data; boundary={}", boundary));
  if (!file.ok()) return file.status();
  return TextIn(*file, "id");
}

// The id of a new batch. The gateway keeps the set beside it, so that the batch alone suffices to compare.
absl::StatusOr<std::string> BeginBatch(const PublicClient& api, const EvaluateOptions& options,
                                       std::string_view set, const std::string& input) {
  const std::string name = std::filesystem::path(options.set).filename();
  const absl::StatusOr<std::string> set_file = Upload(api, "user_data", "set.jsonl", set);
  if (!set_file.ok()) return set_file.status();
  const absl::StatusOr<std::string> file = Upload(api, "batch", "evaluation.jsonl", input);
  if (!file.ok()) return file.status();
  const ordered_json creation{
      {"input_file_id", *file},
      {"endpoint", "/v1/chat/completions"},
      {"completion_window", "24h"},
      {"metadata", datasets::MarksOf({.set_file = *set_file, .set_name = name, .models = options.models})}};
  const auto batch = api.AskJson("POST", "/v1/batches", creation.dump());
  if (!batch.ok()) return batch.status();
  return TextIn(*batch, "id");
}

bool HasBatchEnded(const std::string& status) {
  return status == "completed" || status == "failed" || status == "cancelled" || status == "expired";
}

absl::StatusOr<ordered_json> FollowBatch(const PublicClient& api, const std::string& id,
                                         const Interruption& interruption) {
  uint64_t shown = 0;
  auto progress = std::chrono::steady_clock::now();
  bool hinted = false;
  while (true) {
    absl::StatusOr<ordered_json> batch = api.AskJson("GET", "/v1/batches/" + net::PercentEncode(id));
    if (!batch.ok() || HasBatchEnded(TextIn(*batch, "status"))) return batch;
    if (const auto counts = batch->find("request_counts"); counts != batch->end() && counts->is_object()) {
      const uint64_t done = counts->value("completed", uint64_t{0}) + counts->value("failed", uint64_t{0});
      if (done != std::exchange(shown, done)) {
        fmt::print(stderr, "{}: {} of {}\n", id, done, counts->value("total", uint64_t{0}));
        progress = std::chrono::steady_clock::now();
        hinted = false;
      }
    }
    if (!hinted && std::chrono::steady_clock::now() > progress + kHintAfter) {
      hinted = true;
      fmt::print(stderr,
                 "{}: its lines wait: a batch uses what other requests and jobs leave. A model without "
                 "replicas answers when\n"
                 "  other requests start one, or when devices are free and its scaling policy has `batch: "
                 "{{may_start: true}}`.\n",
                 id);
    }
    for (auto waited = std::chrono::milliseconds(0); waited < kFollow && !interruption.seen();
         waited += std::chrono::milliseconds(50))
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (!interruption.seen()) continue;
    fmt::print(stderr, "the batch continues; show it later with --batch {}\n", id);
    interruption.Obey();
  }
}

std::string ProblemsOf(const ordered_json& batch) {
  std::string out;
  const auto errors = batch.find("errors");
  if (errors == batch.end() || !errors->is_object()) return out;
  size_t told = 0;
  for (const ordered_json& error : errors->value("data", ordered_json::array())) {
    if (!error.is_object() || ++told > 3) break;
    out += fmt::format("{}{}", out.empty() ? "" : "; ", TextIn(error, "message"));
  }
  return out;
}

absl::StatusOr<std::string> ReadResults(const PublicClient& api, const ordered_json& batch) {
  std::string results;
  for (const char* name : {"output_file_id", "error_file_id"}) {
    const std::string file = TextIn(batch, name);
    if (file.empty()) continue;
    const absl::StatusOr<std::string> text = api.Ask("GET", fmt::format("/v1/files/{}/content", file));
    if (!text.ok()) return text.status();
    results += *text;
  }
  return results;
}

void RemoveFiles(const PublicClient& api, const ordered_json& batch, const std::string& set_file) {
  std::vector<std::string> files{set_file};
  for (const char* name : {"input_file_id", "output_file_id", "error_file_id"})
    files.push_back(TextIn(batch, name));
  for (const std::string& file : files) {
    if (!file.empty()) static_cast<void>(api.Ask("DELETE", "/v1/files/" + net::PercentEncode(file)));
  }
}

absl::Status CheckOptions(const EvaluateOptions& options) {
  const std::vector<std::string>& models = options.models;
  if (options.batch.empty() && (options.set.empty() || models.empty()))
    return absl::InvalidArgumentError(
        "give --set and --models, or --batch for an evaluation that was begun before");
  if (models.size() > datasets::kMostModels)
    return absl::InvalidArgumentError(
        fmt::format("--models: give 1 to {} models, joined by commas", datasets::kMostModels));
  for (size_t i = 1; i < models.size(); ++i) {
    const auto end = models.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(models.begin(), end, models[i]) != end)
      return absl::InvalidArgumentError(fmt::format("--models: {} is given twice", models[i]));
  }
  if (options.html.empty()) return absl::OkStatus();
  const std::string why = WhyNotWritable(options.html);
  return why.empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(fmt::format("--html: cannot write {}: {}", options.html, why));
}

absl::StatusOr<std::vector<ComparedExample>> ReadSetOf(const std::string& name, std::string_view text) {
  auto set = datasets::ReadSet(text, datasets::kMostExamples);
  if (set.ok()) return set;
  return absl::InvalidArgumentError(fmt::format("--set: {}: {}", name, conf::Std(set.status().message())));
}

// What the batch compares: as it is marked, unless the command line says it.
absl::StatusOr<datasets::Evaluation> EvaluationOf(const EvaluateOptions& options, const ordered_json& batch) {
  std::map<std::string, std::string> metadata;
  if (const auto found = batch.find("metadata"); found != batch.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (value.is_string()) metadata[name] = value.get<std::string>();
    }
  }
  datasets::Evaluation evaluation = datasets::ReadMarks(metadata).value_or(datasets::Evaluation());
  if (!options.models.empty()) evaluation.models = options.models;
  if (!options.set.empty()) evaluation.set_name = options.set;
  if (evaluation.models.empty() || (options.set.empty() && evaluation.set_file.empty())) {
    return absl::InvalidArgumentError(fmt::format(
        "--batch: {} is not a batch of this command; give its --set and --models", TextIn(batch, "id")));
  }
  return evaluation;
}

void ShowComparison(const Comparison& comparison, const EvaluateOptions& options) {
  if (options.json) {
    fmt::print("{}\n", conf::ToJsonText(comparison));
  } else {
    fmt::print("{}", datasets::ComparisonText(comparison, options.width));
  }
}

int Evaluate(const EvaluateOptions& options) {
  if (const absl::Status wrong = CheckOptions(options); !wrong.ok()) return Fail(wrong);
  std::string text;
  absl::StatusOr<std::vector<ComparedExample>> set = std::vector<ComparedExample>();
  if (!options.set.empty()) {
    absl::StatusOr<std::string> read = ReadWhole(options.set, kMostSet);
    if (!read.ok())
      return Fail(absl::InvalidArgumentError(fmt::format("--set: {}", conf::Std(read.status().message()))));
    text = *std::move(read);
    set = ReadSetOf(options.set, text);
    if (!set.ok()) return Fail(set.status());
  }
  const absl::StatusOr<PublicClient> api = PublicClient::Open(options.api);
  if (!api.ok()) return Fail(api.status());
  const Interruption interruption;
  std::string id = options.batch;
  if (id.empty()) {
    const absl::StatusOr<std::string> begun =
        BeginBatch(*api, options, text, datasets::BatchInput(*set, options.models, options.max_tokens));
    if (!begun.ok()) return Fail(begun.status());
    id = *begun;
    fmt::print(stderr, "{}: {} for {}\n", id, Counted(set->size(), "example"),
               Counted(options.models.size(), "model"));
  }
  const absl::StatusOr<ordered_json> batch = FollowBatch(*api, id, interruption);
  if (!batch.ok()) return Fail(batch.status());
  if (TextIn(*batch, "status") == "failed") {
    const std::string why = ProblemsOf(*batch);
    return Fail(absl::UnavailableError(
        fmt::format("the batch {} failed: {}", id, why.empty() ? "no reason was given" : why)));
  }
  const absl::StatusOr<datasets::Evaluation> evaluation = EvaluationOf(options, *batch);
  if (!evaluation.ok()) return Fail(evaluation.status());
  if (options.set.empty()) {
    absl::StatusOr<std::string> kept =
        api->Ask("GET", fmt::format("/v1/files/{}/content", net::PercentEncode(evaluation->set_file)));
    if (!kept.ok()) return Fail(kept.status());
    set = ReadSetOf(evaluation->set_name, *kept);
    if (!set.ok()) return Fail(set.status());
  }
  const absl::StatusOr<std::string> results = ReadResults(*api, *batch);
  if (!results.ok()) return Fail(results.status());
  Comparison comparison = datasets::Compare(*set, evaluation->models, *results);
  comparison.set = evaluation->set_name;
  comparison.batch = id;
  if (!options.html.empty()) {
    const absl::Status written = WriteWhole(options.html, datasets::ComparisonHtml(comparison));
    if (!written.ok()) return Fail(written);
    fmt::print(stderr, "{} is written\n", options.html);
  }
  if (options.remove) RemoveFiles(*api, *batch, evaluation->set_file);
  ShowComparison(comparison, options);
  uint64_t failed = 0;
  for (const datasets::ModelSummary& model : comparison.models) failed += model.failed;
  return failed == 0 ? kOk : kFailed;
}

}  // namespace

void AddDatasetEvaluate(CLI::App& dataset, Run& run) {
  CLI::App* command = dataset.add_subcommand(
      "evaluate", "Ask models for the answers to a data set, and show them side by side");
  auto options = std::make_shared<EvaluateOptions>();
  command->add_option("--set", options->set,
                      "The data set: lines of messages, as dataset export writes them");
  command->add_option("--models", options->models, "The models, joined by commas: 1 to 8")->delimiter(',');
  command->add_option("--batch", options->batch,
                      "Show a batch that this command began before, instead of starting one");
  AddPublicOptions(*command, options->api);
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "A bound for each answer, in tokens; default: the model's own")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  command->add_option("--width", options->width, "Characters of a text that the table shows")
      ->check(CLI::Range(size_t{20}, size_t{10'000}))
      ->capture_default_str();
  command->add_option("--html", options->html, "A file to write the comparison to, as one page");
  command->add_flag("--delete-files", options->remove,
                    "Delete the set and the answers at the gateway when they are shown");
  command->add_flag("--json", options->json, "Print the comparison as JSON");
  command->footer(
      "The batch runs with the limits, budgets and prices of the key; the gateway needs the section files. "
      "An answer\n"
      "in the set is shown beside those of the models, and is not sent to them. The console shows the "
      "comparison, too,\n"
      "while the gateway keeps its files. Exit code 1 if an answer failed.\n\n"
      "Examples:\n"
      "  tidegate dataset evaluate --set bad.jsonl --models chat-small,chat-large --html comparison.html\n"
      "  tidegate dataset evaluate --set bad.jsonl --models chat-small,chat-large --json > comparison.json\n"
      "  tidegate dataset evaluate --batch batch_0123456789abcdef01234567");
  command->callback([options, &run] { run = [options] { return Evaluate(*options); }; });
}

}  // namespace gateway::cli
