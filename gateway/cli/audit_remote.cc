#include "gateway/cli/audit_remote.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <thread>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/parse.h"
#include "gateway/net/clock.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

constexpr size_t kPage = 1000;
constexpr auto kFollowInterval = std::chrono::seconds(1);
// Where the last records are looked for: longer and longer ago, as the API reads forwards only.
constexpr const char* kAges[] = {"10m", "1h", "24h", "30d", ""};

struct Page {
  std::string body;
  std::vector<std::string_view> records;  // views into the body
  uint64_t next = 0;
  bool more = false;
};

absl::StatusOr<Page> ReadPage(const RemoteAudit& options, uint64_t from_seq, const std::string& since) {
  absl::StatusOr<std::string> body = AskText(
      options.admin,
      fmt::format("/admin/v1/audit?limit={}&from_seq={}&since={}&until={}&tenant={}&model={}&kind={}{}",
                  kPage, from_seq, net::PercentEncode(since), net::PercentEncode(options.request.until),
                  net::PercentEncode(options.request.tenant), net::PercentEncode(options.request.model),
                  net::PercentEncode(fmt::format("{}", fmt::join(options.request.kinds, ","))),
                  options.open_content ? "&content=open" : ""));
  if (!body.ok()) return body.status();
  Page page;
  page.body = *std::move(body);
  const nlohmann::ordered_json read = conf::ParseOrderedJson(page.body);
  if (!read.is_object() || !read.contains("next_from_seq"))
    return absl::UnavailableError("the answer does not come from an admin listener; check the address");
  page.records = RecordsIn(page.body);
  page.next = read.value("next_from_seq", uint64_t{0});
  page.more = read.value("has_more", false);
  return page;
}

// Calls `take` with each record until it returns false. Returns where to go on.
absl::StatusOr<uint64_t> ReadAll(const RemoteAudit& options, uint64_t from_seq, const std::string& since,
                                 const std::function<bool(std::string_view)>& take) {
  for (uint64_t next = from_seq;;) {
    const absl::StatusOr<Page> page = ReadPage(options, next, since);
    if (!page.ok()) return page.status();
    for (const std::string_view record : page->records) {
      if (!take(record)) return page->next;
    }
    if (!page->more || page->next <= next) return page->next;
    next = page->next;
  }
}

int CheckWords(const RemoteAudit& options) {
  AuditRequest words = options.request;
  words.tenant.clear();
  ledger::ExportOptions ignored;
  return PrintOptionProblems(CheckAuditRequest(words, Config(), net::Now(), ignored));
}

}  // namespace

std::vector<std::string_view> RecordsIn(std::string_view body) {
  std::vector<std::string_view> records;
  constexpr std::string_view kData = "\"data\":[";
  const size_t list = body.find(kData);
  if (list == std::string_view::npos) return records;
  size_t depth = 0;
  size_t begin = 0;
  bool quoted = false;
  for (size_t at = list + kData.size(); at < body.size(); ++at) {
    const char c = body[at];
    if (quoted) {
      if (c == '\\') ++at;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (depth++ == 0) begin = at;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return records;  // the end of the list
      if (--depth == 0) records.push_back(body.substr(begin, at + 1 - begin));
    }
  }
  return records;
}

int ExportThere(const RemoteAudit& options) {
  if (const int code = CheckWords(options); code != kOk) return code;
  const bool to_file = !options.out.empty() && options.out != "-";
  if (to_file) {
    std::error_code error;
    if (std::filesystem::exists(options.out, error)) {
      return Fail(absl::FailedPreconditionError(
          fmt::format("--out: {} exists; an export from a gateway makes a new file", options.out)));
    }
    if (const std::string why = WhyNotWritable(options.out); !why.empty())
      return Fail(absl::InvalidArgumentError(fmt::format("--out: cannot write {}: {}", options.out, why)));
  }
  const bool csv = options.format == "csv";
  FILE* const out = to_file ? std::fopen(options.out.c_str(), "wxe") : stdout;
  if (out == nullptr)
    return Fail(absl::InvalidArgumentError(fmt::format("--out: cannot make {}", options.out)));
  uint64_t records = 0;
  bool broken = false;
  ledger::RecordParser parser;
  ledger::Record record;
  const auto write = [&](std::string_view text) {
    broken = broken ||
             (to_file ? std::fwrite(text.data(), 1, text.size(), out) != text.size() : !WriteOutput(text));
  };
  if (csv) write(ledger::CsvHeader());
  const absl::StatusOr<uint64_t> next = ReadAll(options, std::max<uint64_t>(options.from_seq, 1),
                                                options.request.since, [&](std::string_view line) {
                                                  if (!csv) {
                                                    write(line);
                                                    write("\n");
                                                  } else if (parser.Parse(line, &record).ok()) {
                                                    std::string row;
                                                    ledger::AppendCsv(&row, record);
                                                    write(row);
                                                  }
                                                  ++records;
                                                  return !broken;
                                                });
  if (to_file) broken = std::fclose(out) != 0 || broken;
  if (!next.ok()) return Fail(next.status());
  if (!to_file && (broken || !OutputWritten())) return Fail(OutputError());
  if (broken) return Fail(absl::UnavailableError(fmt::format("{} could not be written whole", options.out)));
  if (options.json) {
    const nlohmann::ordered_json summary = {
        {"records", records}, {"last_seq", *next - 1}, {"file", options.out}};
    fmt::print(to_file ? stdout : stderr, "{}\n", summary.dump());
  } else {
    fmt::print(stderr, "{} written, up to record {}\n", Counted(records, "record"), *next - 1);
  }
  return kOk;
}

int VerifyThere(const RemoteAudit& options) {
  auto status = AskAdmin(options.admin, "POST", "/admin/v1/audit:verify", nlohmann::json::object());
  while (status.ok() && status->value("state", "") == "running") {
    std::this_thread::sleep_for(kFollowInterval);
    status = AskAdmin(options.admin, "GET", "/admin/v1/audit/verification");
  }
  if (!status.ok()) return Fail(status.status());
  const std::string state = TextOr(*status, "state");
  if (options.json) {
    fmt::print("{}\n", status->dump());
  } else if (state == "good") {
    fmt::print("good: {} ({} to {}), {}; {} not signed yet\n",
               Counted(status->value("records", uint64_t{0}), "record"),
               status->value("first_seq", uint64_t{0}), status->value("last_seq", uint64_t{0}),
               Counted(status->value("checkpoints", uint64_t{0}), "checkpoint"),
               Counted(status->value("unsigned_records", uint64_t{0}), "record"));
    fmt::print(
        stderr,
        "tidegate: the gateway has verified itself; if you do not trust its machine, verify a copy of the "
        "ledger, with a public key and checkpoints from elsewhere\n");
  } else if (const auto bad = status->find("first_bad"); bad != status->end() && bad->is_object()) {
    fmt::print("BAD at {} (record {}): {}\n", TextOr(*bad, "segment"), bad->value("seq", uint64_t{0}),
               TextOr(*bad, "why"));
  } else {
    fmt::print("the ledger was not verified: {} {}\n", state, TextOr(*status, "why"));
  }
  return state == "good" ? kOk : kFailed;
}

int TailThere(const RemoteAudit& options) {
  const auto print = [](std::string_view line) {
    fmt::print("{}\n", line);
    return true;
  };
  absl::StatusOr<uint64_t> next = options.from_seq;
  if (options.from_seq > 0) {
    next = ReadAll(options, options.from_seq, "", print);
  } else {
    std::deque<std::string> last;
    for (const char* age : kAges) {
      last.clear();
      next = ReadAll(options, 1, age, [&](std::string_view line) {
        last.emplace_back(line);
        if (last.size() > options.last) last.pop_front();
        return true;
      });
      if (!next.ok() || last.size() >= options.last) break;
    }
    if (next.ok()) {
      for (const std::string& line : last) print(line);
    }
  }
  while (true) {
    if (!next.ok()) return Fail(next.status());
    if (!OutputWritten()) return kFailed;
    if (!options.follow) return kOk;
    std::this_thread::sleep_for(kFollowInterval);
    next = ReadAll(options, *next, "", print);
  }
}

}  // namespace gateway::cli
