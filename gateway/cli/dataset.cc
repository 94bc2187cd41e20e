// tidegate dataset: requests and answers out of the ledger as a data set, and models compared by one.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "conf/json_fields.h"
#include "conf/json_reader.h"
#include "conf/text.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/recorded_read.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/datasets/dataset.h"
#include "gateway/datasets/dataset_file.h"
#include "gateway/datasets/expression.h"
#include "gateway/ledger/index.h"
#include "gateway/net/clock.h"
#include "gateway/process/ledger_options.h"
#include "plugins/redaction/redaction.h"

namespace gateway::cli {
namespace {

using datasets::DatasetCounts;
using datasets::DatasetFile;
using datasets::DatasetQuery;
using datasets::DatasetSteps;
using datasets::Expression;
using datasets::Manifest;
using nlohmann::ordered_json;

constexpr uint64_t kRecordsAtOnce = 10'000;
constexpr uint64_t kMostExamples = 10'000'000;

struct DatasetOptions {
  AdminOptions admin;
  std::string where;
  std::string tenant;
  std::string since;
  std::string until;
  std::string format = "openai-jsonl";
  std::string out;
  uint64_t most = kMostExamples;
  bool use_corrections = false;
  bool json = false;
};

// Takes each line until it returns false.
using TakeLine = std::function<bool(std::string_view)>;

void ShowExpressionProblem(const std::string& text, const Expression::Problem& problem) {
  fmt::print(stderr, "tidegate: --where: character {}: {}\n", problem.position, problem.message);
  if (text.size() > 200 || text.find('\n') != std::string::npos) return;
  fmt::print(stderr, "  {}\n  {:>{}}\n", text, '^', problem.position);
}

void AddPage(const ordered_json& page, Manifest& manifest) {
  DatasetCounts counts;
  conf::JsonFaults ignored;  // a gateway of another version may count other things
  conf::ReadJson(conf::Json(page.value("counts", ordered_json::object())), counts, ignored);
  manifest.counts += counts;
  manifest.rules = page.value("rules", std::vector<std::string>());
  for (const auto& [rule, count] : page.value("redactions", std::map<std::string, uint64_t>()))
    manifest.redactions[rule] += count;
}

absl::Status ExportPages(const DatasetOptions& options, Manifest& manifest, const TakeLine& take) {
  manifest.from_seq = 1;
  for (uint64_t from = 1;;) {
    nlohmann::json body{{"where", options.where}, {"from_seq", from}, {"until", manifest.until}};
    if (!manifest.since.empty()) body["since"] = manifest.since;
    if (!options.tenant.empty()) body["tenant"] = options.tenant;
    if (options.use_corrections) body["answers"] = "corrected";
    const absl::StatusOr<ordered_json> page =
        AskAdmin(options.admin, "POST", "/admin/v1/datasets:export", body);
    if (!page.ok()) return page.status();
    AddPage(*page, manifest);
    for (const ordered_json& line : page->value("lines", ordered_json::array())) {
      if (line.is_string() && !take(line.get_ref<const std::string&>())) return absl::OkStatus();
    }
    const uint64_t next = page->value("next_from_seq", uint64_t{0});
    manifest.to_seq = next - 1;
    if (!page->value("has_more", false) || next <= from) return absl::OkStatus();
    from = next;
  }
}

absl::Status ExportFiles(const DatasetOptions& options, const Config& config, const Expression& where,
                         Manifest& manifest, const TakeLine& take) {
  const std::string dir = LedgerDir(config);
  if (!std::filesystem::exists(dir)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: there is no ledger yet; start a gateway with this configuration first", dir));
  }
  ledger::ContentKeys::Options of = ContentKeyOptions(config);
  of.may_write = false;
  const auto keys = ledger::ContentKeys::Open(std::move(of));
  if (!keys.ok()) return keys.status();
  std::vector<plugins::RedactionPattern> patterns;
  for (const config::RedactionRule& rule : config.datasets.redact)
    patterns.push_back({rule.name, rule.pattern});
  const auto redaction = plugins::Redaction::Make(patterns);
  if (!redaction.ok()) return redaction.status();
  AuditRequest request;
  request.since = manifest.since;
  request.until = manifest.until;
  ledger::ExportOptions window;
  CheckAuditRequest(request, config, net::Now(), window);
  DatasetQuery query;
  query.since_us = window.since_us;
  query.until_us = window.until_us;
  query.tenant = manifest.tenant;
  query.use_corrections = options.use_corrections;
  // Texts are not shown without a record.
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "dataset.export";
  event.actor = Actor();
  event.tenant = query.tenant;
  event.detail = ordered_json{
      {"where", options.where},
      {"since", manifest.since},
      {"until", manifest.until},
      {"corrections", options.use_corrections},
      {"out",
       options.out}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (absl::Status recorded = RecordRead(config, std::move(event)); !recorded.ok()) {
    return absl::FailedPreconditionError(fmt::format(
        "the ledger gets no record of this, so nothing is exported: {}", conf::Std(recorded.message())));
  }
  const auto index = ledger::OpenIndexUpToDate(dir);
  if (!index.ok()) return index.status();
  DatasetSteps steps(dir, **index, **keys, where, *redaction, query);
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = steps.Step(kRecordsAtOnce, take);
  if (!more.ok()) return more.status();
  manifest.from_seq = 1;
  manifest.to_seq = steps.last_seq();
  manifest.counts = steps.counts();
  manifest.redactions = steps.redacted();
  manifest.rules = redaction->names();
  return absl::OkStatus();
}

std::string LeftOut(const DatasetCounts& counts) {
  const std::pair<uint64_t, const char*> reasons[] = {
      {counts.not_kept, "not kept"},        {counts.erased, "erased"},
      {counts.cut, "kept in part"},         {counts.unreadable, "without readable text"},
      {counts.other_api, "of another API"}, {counts.not_redacted, "not redacted in time"}};
  std::string out;
  for (const auto& [count, why] : reasons) {
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, why);
  }
  return out.empty() ? "none left out" : fmt::format("left out: {}", out);
}

void TellExport(const DatasetOptions& options, const Manifest& manifest, bool to_file) {
  if (options.json) {
    fmt::print(to_file ? stdout : stderr, "{}\n", conf::ToJsonText(manifest));
    return;
  }
  uint64_t redacted = 0;
  for (const auto& [rule, count] : manifest.redactions) redacted += count;
  fmt::print(stderr, "{} of {} ({}); {} with a correction, {} redacted\n",
             Counted(manifest.counts.examples, "example"), Counted(manifest.counts.requests, "request"),
             LeftOut(manifest.counts), manifest.counts.corrected, Counted(redacted, "text"));
  if (to_file) {
    fmt::print(stderr, "{}: {} bytes, SHA-256 {}; the manifest is {}\n", options.out, manifest.bytes,
               manifest.sha256, DatasetFile::ManifestPath(options.out));
  }
}

int ExportDataset(const DatasetOptions& options) {
  Expression where;
  if (!options.where.empty()) {
    auto parsed = Expression::Parse(options.where);
    if (const auto* const problem = std::get_if<Expression::Problem>(&parsed)) {
      ShowExpressionProblem(options.where, *problem);
      return kUsage;
    }
    where = std::get<Expression>(std::move(parsed));
  }
  const bool there = AsksGateway(options.admin);
  const std::optional<Config> config =
      there ? std::optional<Config>(Config()) : LoadOwnConfig(options.admin, options.json);
  if (!config) return kUsage;
  // The range of time is fixed now, whatever comes in while the set is read.
  const conf::TimePoint now = net::Now();
  AuditRequest request;
  request.since = options.since;
  request.until = options.until;
  ledger::ExportOptions window;
  if (const int code = PrintOptionProblems(CheckAuditRequest(request, *config, now, window)); code != kOk)
    return code;
  Manifest manifest;
  manifest.where = options.where;
  manifest.tenant = there || options.tenant.empty()
                        ? options.tenant
                        : TenantPath(*config, options.tenant).value_or(options.tenant);
  if (!options.since.empty()) manifest.since = conf::FormatTime(conf::FromUnixMicros(window.since_us));
  manifest.until = conf::FormatTime(options.until.empty() ? now : conf::FromUnixMicros(window.until_us));
  manifest.use_corrections = options.use_corrections;
  manifest.made_at = conf::FormatTime(now);
  const bool to_file = !options.out.empty() && options.out != "-";
  std::unique_ptr<DatasetFile> file;
  if (to_file) {
    auto made = DatasetFile::Create(options.out);
    if (!made.ok()) return Fail(made.status());
    file = *std::move(made);
  }
  absl::Status written;
  const auto take = [&](std::string_view line) {
    if (file) {
      written = file->Add(line);
    } else if (!WriteOutput(line) || !WriteOutput("\n")) {
      written = OutputError();
    }
    return written.ok() && ++manifest.examples < options.most;
  };
  const absl::Status read =
      there ? ExportPages(options, manifest, take) : ExportFiles(options, *config, where, manifest, take);
  if (!read.ok()) return Fail(read);
  if (written.ok() && !file && !OutputWritten()) written = OutputError();
  if (written.ok() && file) written = file->Finish(manifest);
  if (!written.ok()) return Fail(written);
  TellExport(options, manifest, to_file);
  return kOk;
}

std::string FieldsInWords() {
  std::string out;
  for (const Expression::FieldInfo& field : Expression::Fields())
    out += fmt::format("  {:<10} {:<8} {}\n", field.name, field.type, field.about);
  return out;
}

}  // namespace

void AddDataset(CLI::App& app, Run& run) {
  CLI::App* dataset =
      app.add_subcommand("dataset", "Make data sets from requests and answers, and compare models with them");
  dataset->require_subcommand(1);
  auto options = std::make_shared<DatasetOptions>();
  CLI::App* command = dataset->add_subcommand(
      "export", "Export requests and answers whose content was kept, redacted, as a data set");
  options->admin.config = AddConfigOption(*command);
  AddGatewayOptions(*command, options->admin);
  command->add_option("--where", options->where,
                      "Which requests: a condition over their facts and the feedback on them; default: all");
  command->add_option("--tenant", options->tenant, "Only this tenant and the tenants below it");
  command->add_option("--since", options->since,
                      "The beginning: an age such as 7d, or a time such as 2027-01-31T00:00:00Z");
  command->add_option("--until", options->until,
                      "The end, not included; in the form of --since; default: now");
  command->add_option("--format", options->format, "openai-jsonl: lines of messages, as for fine-tuning")
      ->check(CLI::IsMember({"openai-jsonl"}))
      ->capture_default_str();
  command->add_option("-o,--out", options->out, "The file to make; default: standard output");
  command->add_option("--limit", options->most, "How many examples at most")
      ->check(CLI::Range(uint64_t{1}, kMostExamples));
  command->add_flag("--use-corrections", options->use_corrections,
                    "The latest correction in the feedback replaces the answer");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->footer(
      "Conditions are joined by and, or, not and parentheses; feedback.NAME is what applications have "
      "said; it\n"
      "has the type of the compared value. feedback.NAME exists is true if there is any. Other fields:\n" +
      FieldsInWords() +
      "\n"
      "The file gets its name when it is complete; its manifest has the SHA-256. The ledger gets a record "
      "of each\n"
      "export. E-mail addresses, API keys, private keys, card numbers and text that the patterns of the "
      "section\n"
      "datasets match are replaced.\n\n"
      "Examples:\n"
      "  tidegate dataset export --where 'feedback.helpful = false and model = chat-small' --out "
      "bad.jsonl\n"
      "  tidegate dataset export --where 'feedback.score >= 4 or corrected = true' --use-corrections --out "
      "tune.jsonl\n"
      "  tidegate dataset export --where 'not feedback.helpful exists and output < 500' --since 7d | head");
  command->callback([options, &run] { run = [options] { return ExportDataset(*options); }; });
  AddDatasetEvaluate(*dataset, run);
}

}  // namespace gateway::cli
