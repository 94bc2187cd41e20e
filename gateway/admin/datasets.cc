// Data sets out of the ledger, part by part. The ledger's files are read on the readers' thread.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <variant>

#include "conf/text.h"
#include "gateway/admin/answers/datasets.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/config/state_files.h"
#include "gateway/datasets/dataset.h"
#include "gateway/datasets/expression.h"
#include "gateway/ledger/index.h"
#include "plugins/redaction/redaction.h"

namespace gateway::admin {
namespace {

using datasets::DatasetQuery;
using datasets::DatasetSteps;
using datasets::Expression;

// The most records that one call reads, and bytes that it answers; the next call continues there.
constexpr uint64_t kMostRecordsOfPart = 200'000;
constexpr uint64_t kRecordsOfStep = 2'000;
constexpr size_t kMostBytesOfPart = 4 << 20;

// What a call reads with; the steps refer to the others.
struct Reading {
  std::unique_ptr<ledger::Index> index;
  Expression where;
  std::optional<plugins::Redaction> redaction;
  std::optional<DatasetSteps> steps;
};

std::vector<FieldProblem> ReadDatasetCall(const Call& call, DatasetQuery& query, Expression& where) {
  AuditRequest request;
  request.since = call.Text("since");
  request.until = call.Text("until");
  ledger::ExportOptions window;
  std::vector<FieldProblem> problems = CheckAuditRequest(request, call.runtime->config(), call.now, window);
  query.since_us = window.since_us;
  query.until_us = window.until_us;
  const std::string answers = call.Text("answers");
  if (!answers.empty() && answers != "stored" && answers != "corrected")
    problems.push_back({"answers", fmt::format("\"{}\" must be stored or corrected", answers)});
  query.use_corrections = answers == "corrected";
  if (const auto from = call.body.find("from_seq"); from != call.body.end())
    query.from_seq = from->get<uint64_t>();
  const std::string text = call.Text("where");
  if (text.empty()) return problems;
  auto parsed = Expression::Parse(text);
  if (const auto* const problem = std::get_if<Expression::Problem>(&parsed)) {
    problems.push_back({"where", fmt::format("character {}: {}", problem->position, problem->message)});
  } else {
    where = std::get<Expression>(std::move(parsed));
  }
  return problems;
}

absl::StatusOr<plugins::Redaction> RedactionOf(const Config& config) {
  std::vector<plugins::RedactionPattern> patterns;
  patterns.reserve(config.datasets.redact.size());
  for (const config::RedactionRule& rule : config.datasets.redact)
    patterns.push_back({rule.name, rule.pattern});
  return plugins::Redaction::Make(patterns);
}

absl::Status RecordDatasetRead(const Operations& operations, const Call& call, const DatasetQuery& query,
                               const DatasetSteps& steps) {
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "dataset.export";
  event.actor = call.caller.actor;
  event.tenant = query.tenant;
  event.detail =
      nlohmann::ordered_json{{"where", call.Text("where")},         {"texts", 2 * steps.counts().examples},
                             {"examples", steps.counts().examples}, {"corrections", query.use_corrections},
                             {"from_seq", query.from_seq},          {"to_seq", steps.last_seq()}}
          .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return operations.shared->ledger->Append(std::move(event));
}

}  // namespace

net::Task<Answer> ExportDataset(const Operations& operations, const Call& call) {
  DatasetQuery query;
  Reading reading;
  const std::vector<FieldProblem> problems = ReadDatasetCall(call, query, reading.where);
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  const std::variant<std::string, Answer> tenant =
      TenantInScope(call, call.Text("tenant"), Permission::kReadContent);
  if (const Answer* const refused = std::get_if<Answer>(&tenant)) co_return *refused;
  query.tenant = std::get<std::string>(tenant);
  if (operations.shared->content_keys == nullptr)
    co_return Refuse(api::Code::kConflict, "this gateway stores no content", call.request_id);
  absl::StatusOr<plugins::Redaction> redaction = RedactionOf(call.runtime->config());
  if (!redaction.ok()) co_return Refuse(redaction.status(), call.request_id);
  reading.redaction.emplace(*std::move(redaction));
  answers::DatasetPage page;
  page.rules = reading.redaction->names();
  const std::string dir = LedgerDir(call.runtime->config());
  size_t bytes = 0;
  const auto take = [&](std::string_view line) {
    bytes += line.size();
    page.lines.emplace_back(line);
    return bytes < kMostBytesOfPart;
  };
  absl::StatusOr<bool> more = true;
  uint64_t seen = 0;
  for (; more.ok() && *more && seen < kMostRecordsOfPart; seen += kRecordsOfStep) {
    const bool read = co_await call.read([&] {
      if (!reading.index) {
        operations.shared->ledger->Flush().IgnoreError();
        auto index = ledger::OpenIndexUpToDate(dir);
        if (!index.ok()) {
          more = index.status();
          return;
        }
        reading.index = *std::move(index);
        reading.steps.emplace(dir, *reading.index, *operations.shared->content_keys, reading.where,
                              *reading.redaction, query);
      }
      more = reading.steps->Step(kRecordsOfStep, take);
    });
    if (!read) co_return RefuseCrowded(call.request_id);
  }
  if (!more.ok()) co_return Refuse(more.status(), call.request_id);
  // Nobody reads what others wrote without a record.
  if (reading.steps->counts().examples > 0) {
    absl::Status recorded;
    const bool ran =
        co_await call.read([&] { recorded = RecordDatasetRead(operations, call, query, *reading.steps); });
    if (!ran) co_return RefuseCrowded(call.request_id);
    if (!recorded.ok()) co_return Refuse(recorded, call.request_id);
  }
  page.counts = reading.steps->counts();
  page.redactions = reading.steps->redacted();
  page.next_from_seq = reading.steps->last_seq() + 1;
  page.has_more = reading.steps->last_seq() < reading.index->applied_seq();
  co_return Json(page);
}

}  // namespace gateway::admin
