// Usage and audit: what the ledger says. Both read its files on a thread of their own, beside its writer.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "conf/text.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/segment.h"
#include "gateway/ledger/tail.h"
#include "gateway/state_files.h"
#include "gateway/usage_report.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

// One call looks through so many records at most; the next goes on where it stopped.
constexpr size_t kMaxScanned = 200'000;
constexpr size_t kMaxAnswerBytes = 8 << 20;
constexpr size_t kBatchRecords = 1024;
constexpr size_t kBatchBytes = 1 << 20;

uint64_t Whole(const Call& call, std::string_view name, uint64_t otherwise) {
  const std::string text = call.Query(name);
  if (!text.empty()) std::from_chars(text.data(), text.data() + text.size(), otherwise);
  return otherwise;
}

struct AuditFilter {
  std::vector<ledger::Kind> kinds;
  ledger::UsageQuery where;  // since, until, tenant, model
  bool content = false;      // prompts and answers may be seen

  bool Takes(const ledger::Record& record) const {
    if (record.kind == ledger::Kind::kContent && !content) return false;
    if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), record.kind) == kinds.end()) return false;
    if (record.time_us < where.since_us || record.time_us >= where.until_us) return false;
    if (!where.model.empty() && record.model != where.model) return false;
    return where.tenant.empty() || record.tenant == where.tenant ||
           record.tenant.starts_with(where.tenant + "/");
  }
};

std::vector<FieldProblem> ReadFilter(const Call& call, AuditFilter& filter) {
  UsageRequest request;
  request.since = call.Query("since");
  request.until = call.Query("until");
  request.tenant = call.Query("tenant");
  request.model = call.Query("model");
  std::vector<FieldProblem> problems =
      CheckUsageRequest(request, call.runtime->config(), call.now, filter.where);
  for (const std::string& word : SplitList(call.Query("kind"))) {
    if (const std::optional<ledger::Kind> kind = ledger::ParseKind(word)) {
      filter.kinds.push_back(*kind);
      continue;
    }
    std::vector<std::string_view> names;
    for (size_t i = 0; i < ledger::kKinds; ++i) names.push_back(Name(static_cast<ledger::Kind>(i)));
    std::string hint = conf::DidYouMean(word, names);
    if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(names, ", "));
    problems.push_back({"kind", fmt::format("unknown kind \"{}\"{}", word, hint)});
  }
  filter.content = call.role >= plugins::auth::Role::kAdmin;
  return problems;
}

// The segment that the first record at or after `since_us` may stand in begins with this one.
uint64_t FirstSeqSince(const std::string& dir, int64_t since_us) {
  const auto segments = ledger::ListSegments(dir);
  if (!segments.ok() || since_us == 0) return 1;
  ledger::RecordParser parser;
  ledger::Record record;
  const auto begins_before = [&](const ledger::SegmentName& segment) {
    auto reader = ledger::LineReader::Open(segment.path);
    if (!reader.ok()) return true;
    const auto line = reader->Next();
    return line.ok() && *line && parser.Parse(**line, &record).ok() && record.time_us < since_us;
  };
  const auto after = std::partition_point(segments->begin(), segments->end(), begins_before);
  return after == segments->begin() ? 1 : (after - 1)->first_seq;
}

}  // namespace

Answer Usage(const Operations& operations, const Call& call) {
  UsageRequest request;
  request.by = SplitList(call.Query("by"));
  request.since = call.Query("since");
  request.until = call.Query("until");
  request.tenant = call.Query("tenant");
  request.model = call.Query("model");
  ledger::UsageQuery query;
  std::vector<FieldProblem> problems = CheckUsageRequest(request, call.runtime->config(), call.now, query);
  const size_t limit = Whole(call, "limit", kMaxPage);
  const size_t after = Whole(call, "after", 0);
  if (limit < 1 || limit > kMaxPage) {
    problems.push_back({"limit", fmt::format("{} is not from 1 to {}", limit, kMaxPage)});
  }
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  // What has just ended is in the answer; without it when the disk does not take it.
  operations.shared->ledger->Flush().IgnoreError();
  const auto rows = ledger::QueryUsage(LedgerDir(call.runtime->config()), query);
  if (!rows.ok()) return Refuse(rows.status(), call.request_id);
  const size_t begin = std::min(after, rows->size());
  const size_t end = std::min(begin + limit, rows->size());
  const std::vector<ledger::UsageRow> page(rows->begin() + static_cast<ptrdiff_t>(begin),
                                           rows->begin() + static_cast<ptrdiff_t>(end));
  ordered_json out;
  out["object"] = "list";
  out["since"] = query.since_us == 0 ? ordered_json()
                                     : ordered_json(conf::FormatTime(conf::FromUnixMicros(query.since_us)));
  out["until"] = request.until.empty() ? ordered_json()
                                       : ordered_json(conf::FormatTime(conf::FromUnixMicros(query.until_us)));
  out["data"] = UsageJson(query, page);
  out["has_more"] = end < rows->size();
  if (end < rows->size()) out["next"] = std::to_string(end);
  return Json(out);
}

Answer Audit(const Operations& operations, const Call& call) {
  AuditFilter filter;
  std::vector<FieldProblem> problems = ReadFilter(call, filter);
  const size_t limit = Whole(call, "limit", kDefaultPage);
  if (limit < 1 || limit > kMaxPage) {
    problems.push_back({"limit", fmt::format("{} is not from 1 to {}", limit, kMaxPage)});
  }
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  const std::string dir = LedgerDir(call.runtime->config());
  const uint64_t from = Whole(call, "from_seq", 0);
  const uint64_t last = operations.shared->ledger->GetStats().durable_seq;
  ledger::Tail tail(dir,
                    std::max<uint64_t>(from > 0 ? from : FirstSeqSince(dir, filter.where.since_us), 1) - 1);
  ledger::RecordParser parser;
  ledger::Record record;

  // Records are shown as they stand in the ledger: text that need not be parsed again.
  std::string data;
  size_t taken = 0;
  uint64_t next = tail.after_seq() + 1;
  bool at_end = false;
  for (size_t scanned = 0;
       taken < limit && scanned < kMaxScanned && data.size() < kMaxAnswerBytes && !at_end;) {
    const auto batch = tail.Read(kBatchRecords, kBatchBytes, last);
    if (!batch.ok()) return Refuse(batch.status(), call.request_id);
    at_end = batch->lines.empty();
    for (const ledger::Tail::Line& line : batch->lines) {
      if (taken == limit || data.size() >= kMaxAnswerBytes) break;
      if (const absl::Status parsed = parser.Parse(line.text, &record); !parsed.ok()) {
        return Refuse(
            absl::InternalError(fmt::format("record {}: {}", line.seq, conf::Std(parsed.message()))),
            call.request_id);
      }
      next = line.seq + 1;
      ++scanned;
      if (!filter.Takes(record)) continue;
      data.append(taken++ == 0 ? "" : ",").append(line.text);
    }
  }
  return {.body = fmt::format("{{\"object\":\"list\",\"data\":[{}],\"has_more\":{},\"next_from_seq\":{}}}\n",
                              data, next <= last, next)};
}

}  // namespace gateway::admin
