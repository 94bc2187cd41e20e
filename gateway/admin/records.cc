// Usage and audit, from the ledger. Both read its files on the readers' thread, beside its writer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "conf/text.h"
#include "gateway/admin/answers/usage.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/audit/content_erasure.h"
#include "gateway/audit/feedback_usage.h"
#include "gateway/audit/focus.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/audit/statement.h"
#include "gateway/batches/service.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/proof.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

// The most records that one call reads; the next call continues there.
constexpr uint64_t kMaxSeen = 200'000;
constexpr size_t kMaxAnswerBytes = 8 << 20;
// ... and in one turn: some ten milliseconds of parsing, after which other calls are served.
constexpr uint64_t kStep = 2'000;

uint64_t Whole(const Call& call, std::string_view name, uint64_t otherwise) {
  const std::string text = call.Query(name);
  if (!text.empty()) std::from_chars(text.data(), text.data() + text.size(), otherwise);
  return otherwise;
}

uint64_t PageLimit(const Call& call, uint64_t otherwise, std::vector<FieldProblem>& problems) {
  const uint64_t limit = Whole(call, "limit", otherwise);
  if (limit < 1 || limit > kMaxPage)
    problems.push_back({"limit", fmt::format("{} is not from 1 to {}", limit, kMaxPage)});
  return limit;
}

// Not checked yet, but within the tenants that the caller may see.
std::variant<UsageRequest, Answer> UsageRequestOf(const Call& call) {
  std::variant<std::string, Answer> tenant = TenantInScope(call, call.Query("tenant"), Permission::kSeeUsage);
  if (Answer* const refused = std::get_if<Answer>(&tenant)) return std::move(*refused);
  UsageRequest request;
  request.by = SplitList(call.Query("by"));
  request.since = call.Query("since");
  request.until = call.Query("until");
  request.tenant = std::get<std::string>(std::move(tenant));
  request.model = call.Query("model");
  return request;
}

// Prompts and answers take a permission of their own.
std::vector<ledger::Kind> KindsFor(const Call& call, std::vector<ledger::Kind> wanted) {
  if (call.caller.authority.MayEverywhere(Permission::kReadContent)) return wanted;
  if (wanted.empty()) {
    for (size_t i = 0; i < ledger::kKinds; ++i) wanted.push_back(static_cast<ledger::Kind>(i));
  }
  std::erase(wanted, ledger::Kind::kContent);
  return wanted;
}

// As CSV, whole: a longer time is asked for in parts.
constexpr size_t kMostCsvRows = 200'000;

Answer Csv(std::string text) {
  return {.body = std::move(text), .content_type = "text/csv; charset=utf-8"};
}

// The problem of a word that is none of `known`; nothing where it is not given or known.
std::optional<FieldProblem> CheckFormat(const std::string& format,
                                        std::initializer_list<std::string_view> known) {
  if (format.empty() || std::ranges::find(known, format) != known.end()) return std::nullopt;
  return FieldProblem{
      "format", fmt::format("unknown format \"{}\", expected one of {}", format, fmt::join(known, ", "))};
}

// `List`: answers::UsageList, answers::FeedbackList.
template <class List>
void AddFreshness(const UsageOfOthers& self, const std::vector<UsageMark>& others, const Call& call,
                  List& out) {
  out.as_of = {AsOf(others, call.now)};
  if (!call.caller.authority.MayEverywhere(Permission::kSeeReplicas)) return;
  out.gateways.emplace().push_back(
      {.gateway = self.gateway, .ledger = self.source, .self = true, .as_of = {call.now}});
  for (const UsageMark& mark : others) {
    out.gateways->push_back({.gateway = mark.gateway,
                             .ledger = mark.source,
                             .stopped = mark.closed,
                             .as_of = {conf::FromUnixMicros(mark.as_of_us)}});
  }
}

absl::Status RecordContentRead(const Operations& operations, const Call& call,
                               const ledger::ExportOptions& options, const ledger::ExportResult& result) {
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "content.read";
  event.actor = call.caller.actor;
  event.tenant = options.tenant;
  event.detail = ordered_json{{"texts", result.shown},
                              {"model", options.model},
                              {"from_seq", options.from_seq},
                              {"to_seq", result.last_seq}}
                     .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return operations.shared->ledger->Append(std::move(event));
}

}  // namespace

Answer Usage(const Operations& operations, const Call& call) {
  const std::variant<UsageRequest, Answer> asked = UsageRequestOf(call);
  if (const Answer* const refused = std::get_if<Answer>(&asked)) return *refused;
  const auto& request = std::get<UsageRequest>(asked);
  ledger::UsageQuery query;
  std::vector<FieldProblem> problems = CheckUsageRequest(request, call.runtime->config(), call.now, query);
  const std::string format = call.Query("format");
  if (auto problem = CheckFormat(format, {"json", "csv", "focus"})) problems.push_back(*std::move(problem));
  if (format == "focus") {
    if (!query.by.empty())
      problems.push_back({"by", "has no effect with the format focus, which has groups of its own"});
    query.by = FocusGroups();
  }
  const size_t limit = PageLimit(call, kMaxPage, problems);
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  // What has just ended is in the answer; without it when the disk does not take it.
  operations.shared->ledger->Flush().IgnoreError();
  const absl::StatusOr<AllUsage> usage =
      QueryAllUsage(LedgerDir(call.runtime->config()), query, operations.usage_of_others);
  if (!usage.ok()) return Refuse(usage.status(), call.request_id);
  const std::vector<ledger::UsageRow>* const rows = &usage->rows;
  if (format == "csv" || format == "focus") {
    if (rows->size() > kMostCsvRows) {
      return Refuse(
          api::Code::kInvalidValue,
          std::vector<FieldProblem>{{"since", fmt::format("{} rows are too many for one file: ask for a "
                                                          "shorter time",
                                                          rows->size())}},
          call.request_id);
    }
    return Csv(format == "csv" ? UsageCsv(query, *rows) : FocusCsv(*rows, PricesOf(call.runtime->config())));
  }
  const size_t begin = std::min<size_t>(Whole(call, "after", 0), rows->size());
  const size_t end = std::min(begin + limit, rows->size());
  answers::UsageList out;
  if (query.since_us != 0) out.since = {conf::FromUnixMicros(query.since_us)};
  if (!request.until.empty()) out.until = {conf::FromUnixMicros(query.until_us)};
  if (operations.usage_of_others) AddFreshness(*operations.usage_of_others, usage->others, call, out);
  out.data = ShowUsage(
      query, {rows->begin() + static_cast<ptrdiff_t>(begin), rows->begin() + static_cast<ptrdiff_t>(end)});
  out.has_more = end < rows->size();
  if (out.has_more) out.next = std::to_string(end);
  return Json(out);
}

Answer Feedback(const Operations& operations, const Call& call) {
  const std::variant<UsageRequest, Answer> asked = UsageRequestOf(call);
  if (const Answer* const refused = std::get_if<Answer>(&asked)) return *refused;
  const auto& request = std::get<UsageRequest>(asked);
  ledger::FeedbackQuery query;
  std::vector<FieldProblem> problems = CheckFeedbackRequest(request, call.runtime->config(), call.now, query);
  const std::string format = call.Query("format");
  if (auto problem = CheckFormat(format, {"json", "csv"})) problems.push_back(*std::move(problem));
  const size_t limit = PageLimit(call, kMaxPage, problems);
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  operations.shared->ledger->Flush().IgnoreError();
  const auto feedback = QueryFeedback(LedgerDir(call.runtime->config()), query, operations.usage_of_others);
  if (!feedback.ok()) return Refuse(feedback.status(), call.request_id);
  std::vector<ShownFeedback> rows = ShowFeedback(query, feedback->sums);
  if (format == "csv") return Csv(FeedbackCsv(rows));
  const size_t begin = std::min<size_t>(Whole(call, "after", 0), rows.size());
  const size_t end = std::min(begin + limit, rows.size());
  answers::FeedbackList out;
  if (query.since_us != 0) out.since = {conf::FromUnixMicros(query.since_us)};
  if (!request.until.empty()) out.until = {conf::FromUnixMicros(query.until_us)};
  if (operations.usage_of_others) AddFreshness(*operations.usage_of_others, feedback->others, call, out);
  out.data.assign(std::make_move_iterator(rows.begin() + static_cast<ptrdiff_t>(begin)),
                  std::make_move_iterator(rows.begin() + static_cast<ptrdiff_t>(end)));
  out.has_more = end < rows.size();
  if (out.has_more) out.next = std::to_string(end);
  return Json(out);
}

Answer ShowStatement(const Operations& operations, const Call& call) {
  std::vector<FieldProblem> problems;
  const std::optional<StatementMonth> month = ParseMonth(call.item);
  if (!month) problems.push_back({"month", fmt::format("\"{}\" must be a month such as 2027-01", call.item)});
  const std::string format = call.Query("format");
  if (auto problem = CheckFormat(format, {"json", "csv"})) problems.push_back(*std::move(problem));
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  const std::variant<std::string, Answer> tenant =
      TenantInScope(call, call.Query("tenant"), Permission::kSeeStatements);
  if (const Answer* const refused = std::get_if<Answer>(&tenant)) return *refused;
  operations.shared->ledger->Flush().IgnoreError();
  const absl::StatusOr<Statement> statement =
      MakeStatement(LedgerDir(call.runtime->config()), std::get<std::string>(tenant), *month, call.now,
                    operations.usage_of_others);
  if (!statement.ok()) return Refuse(statement.status(), call.request_id);
  return format == "csv" ? Csv(StatementCsv(*statement)) : Answer{.body = StatementJson(*statement)};
}

net::Task<Answer> Audit(const Operations& operations, const Call& call) {
  AuditRequest request;
  request.since = call.Query("since");
  request.until = call.Query("until");
  request.tenant = call.Query("tenant");
  request.model = call.Query("model");
  request.kinds = SplitList(call.Query("kind"));
  ledger::ExportOptions options;
  std::vector<FieldProblem> problems = CheckAuditRequest(request, call.runtime->config(), call.now, options);
  options.max_records = PageLimit(call, kDefaultPage, problems);
  if (const std::string content = call.Query("content"); !content.empty() && content != "open")
    problems.push_back({"content", fmt::format("\"{}\" must be open, or not be given", content)});
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  options.from_seq = Whole(call, "from_seq", 1);
  options.max_seen = kMaxSeen;
  options.kinds = KindsFor(call, std::move(options.kinds));
  if (options.kinds.empty() && !request.kinds.empty()) {
    co_return Refuse(api::Code::kPermissionDenied, "only the role admin may read content", call.request_id);
  }
  const bool opens = call.Query("content") == "open";
  if (opens && !call.caller.authority.MayEverywhere(Permission::kReadContent))
    co_return Refuse(api::Code::kPermissionDenied, "only the role admin may read content", call.request_id);
  if (opens) options.content = operations.shared->content_keys.get();
  // Records are shown as they are in the ledger, where each is a line of JSON.
  std::string data;
  const auto take = [&data](std::string_view lines) {
    data += lines;
    return data.size() < kMaxAnswerBytes;
  };
  const uint64_t last = operations.shared->ledger->GetStats().durable_seq;
  const std::string dir = LedgerDir(call.runtime->config());
  std::optional<ledger::ExportSteps> steps;
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) {
    const bool read = co_await call.read([&] {
      if (!steps) {
        absl::StatusOr<ledger::ExportSteps> begun = ledger::ExportSteps::Begin(dir, options);
        if (!begun.ok()) {
          more = begun.status();
          return;
        }
        steps.emplace(*std::move(begun));
      }
      more = steps->Step(kStep, take);
    });
    if (!read) co_return RefuseCrowded(call.request_id);
  }
  if (!more.ok()) co_return Refuse(more.status(), call.request_id);
  const ledger::ExportResult& result = steps->result();
  if (result.shown > 0) {
    // Nobody reads what others wrote without a record.
    if (const absl::Status recorded = RecordContentRead(operations, call, options, result); !recorded.ok())
      co_return Refuse(recorded, call.request_id);
  }
  std::replace(data.begin(), data.end(), '\n', ',');
  if (!data.empty()) data.pop_back();
  co_return Answer{
      .body = fmt::format("{{\"object\":\"list\",\"data\":[{}],\"has_more\":{},\"next_from_seq\":{}}}\n",
                          data, result.last_seq < last, result.last_seq + 1)};
}

Answer ProveRecord(const Operations& operations, const Call& call) {
  uint64_t record = 0;
  const auto [end, error] = std::from_chars(call.item.data(), call.item.data() + call.item.size(), record);
  if (error != std::errc{} || end != call.item.data() + call.item.size()) {
    return Refuse(
        api::Code::kInvalidValue,
        std::vector<FieldProblem>{{"record", fmt::format("\"{}\" is not the number of a record", call.item)}},
        call.request_id);
  }
  operations.shared->ledger->Flush().IgnoreError();
  const absl::StatusOr<ledger::Proof> proof =
      ledger::MakeProof(LedgerDir(call.runtime->config()), record, kMaxAnswerBytes);
  if (absl::IsResourceExhausted(proof.status()) || absl::IsFailedPrecondition(proof.status()))
    return Refuse(api::Code::kConflict, std::string(conf::Std(proof.status().message())), call.request_id);
  if (!proof.ok()) return Refuse(proof.status(), call.request_id);
  // The lines between cannot be left out, and stored content takes a permission of its own.
  if (!call.caller.authority.MayEverywhere(Permission::kReadContent)) {
    const bool content = std::ranges::any_of(proof->lines, [](const std::string& line) {
      const std::optional<ledger::LineParts> parts = ledger::SplitLine(line);
      return parts && parts->kind == Name(ledger::Kind::kContent);
    });
    if (content) {
      return Refuse(
          api::Code::kPermissionDenied,
          "stored prompts or answers are between the record and its checkpoint; only the role admin "
          "may read content",
          call.request_id);
    }
  }
  return {.body = ledger::ProofText(*proof)};
}

Answer ShowVerification(const Operations& operations, const Call& call) {
  if (operations.ledger_check == nullptr)
    return Refuse(api::Code::kConflict, "the ledger is not verified here", call.request_id);
  const LedgerCheck::Status status = operations.ledger_check->Get();
  answers::Verification out{.state = status.state,
                            .by = status.by,
                            .began = answers::TimeOrNull(status.began),
                            .ended = answers::TimeOrNull(status.ended),
                            .done_bytes = status.done_bytes,
                            .total_bytes = status.total_bytes,
                            .why = status.why};
  if (status.report) {
    const ledger::VerifyReport& report = *status.report;
    out.records = report.records;
    out.segments = report.segments;
    out.first_seq = report.first_seq;
    out.last_seq = report.last_seq;
    out.last_chain = report.last_link;
    out.checkpoints = report.checkpoints;
    out.last_checkpoint_seq = report.last_checkpoint_seq;
    out.unsigned_records = report.unsigned_records;
    if (const auto& bad = report.first_bad)
      out.first_bad =
          answers::BadRecord{.segment = bad->segment, .line = bad->line, .seq = bad->seq, .why = bad->why};
  }
  return Json(out);
}

Answer VerifyLedger(const Operations& operations, const Call& call) {
  if (operations.ledger_check != nullptr && operations.ledger_check->Start(call.caller.actor, call.now)) {
    ledger::Event event;
    event.kind = ledger::Kind::kAdmin;
    event.action = "audit.verify";
    event.actor = call.caller.actor;
    operations.record(std::move(event));
  }
  return ShowVerification(operations, call);
}

// The keys of files that gateways share go first: if the store does not answer, nothing is erased.
net::Task<Answer> EraseStored(const Operations& operations, const Call& call) {
  const std::string named = call.Text("tenant");
  const std::string tenant = TenantPath(call.runtime->config(), named).value_or(named);
  const std::string reason = call.Text("reason");
  absl::StatusOr<std::vector<batches::SharedKey>> shared = std::vector<batches::SharedKey>();
  if (operations.shared->batches != nullptr)
    shared = co_await operations.shared->batches->files().EraseShared(tenant, call.caller.actor, reason);
  if (!shared.ok()) co_return Refuse(shared.status(), call.request_id);
  absl::StatusOr<ErasedContent> erased = absl::UnknownError("not erased");
  const bool done = co_await call.read([&] {
    erased = EraseContent(*operations.shared->content_keys, *operations.shared->ledger,
                          {tenant, call.caller.actor, reason}, call.now);
  });
  if (!done) co_return RefuseCrowded(call.request_id);
  operations.content_erased();
  if (!erased.ok()) co_return Refuse(erased.status(), call.request_id);
  for (const batches::SharedKey& key : *shared) erased->erased.push_back({key.tenant, key.id});
  co_return Json(*erased);
}

}  // namespace gateway::admin
