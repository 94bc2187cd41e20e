// tidegate audit: exports records of the ledger, follows it, and checks that nobody changed it. It only
// reads; a gateway may run at the same time.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "conf/text.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/tail.h"
#include "gateway/ledger/verify.h"
#include "gateway/net/clock.h"

namespace gateway::cli {
namespace {

constexpr auto kTailInterval = std::chrono::milliseconds(100);
constexpr size_t kTailRecords = 1024;
constexpr size_t kTailBytes = 1 << 20;

struct AuditOptions {
  std::shared_ptr<std::string> config;
  std::string ledger;  // the folder, if no configuration is used
  AuditRequest request;
  std::string format = "jsonl";
  std::string out;
  std::string public_key;
  std::string anchor;
  uint64_t last = 10;
  uint64_t from_seq = 0;
  bool follow = false;
  bool json = false;
};

// One line on a terminal that is overwritten again and again; nothing elsewhere.
class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown && isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
  }

  void Draw(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || (drawn_ && now - drawn_at_ < std::chrono::milliseconds(100))) return;
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
    drawn_ = true;
    drawn_at_ = now;
  }

 private:
  const bool shown_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_;
};

// Finds the ledger; an exit code if there is none.
int FindLedger(const AuditOptions& options, std::optional<Config>& config, std::string& dir) {
  dir = options.ledger;
  if (dir.empty()) {
    config = LoadForState(*options.config, options.json);
    if (!config) return kUsage;
    dir = LedgerDir(*config);
  } else {
    config.emplace();
  }
  if (std::filesystem::is_directory(dir)) return kOk;
  fmt::print(stderr,
             "tidegate: {}: there is no ledger; start a gateway with this configuration first, or name "
             "another folder\n",
             dir);
  return kFailed;
}

int ReadRequest(const AuditOptions& options, const Config& config, ledger::ExportOptions& out) {
  const std::vector<FieldProblem> problems = CheckAuditRequest(options.request, config, net::Now(), out);
  for (const FieldProblem& problem : problems) {
    fmt::print(stderr, "tidegate: --{}: {}\n", problem.field, problem.message);
  }
  return problems.empty() ? kOk : kUsage;
}

int Export(const AuditOptions& options) {
  std::optional<Config> config;
  std::string dir;
  if (const int code = FindLedger(options, config, dir); code != kOk) return code;
  ledger::ExportOptions wanted;
  if (const int code = ReadRequest(options, *config, wanted); code != kOk) return code;
  wanted.format = options.format == "csv" ? ledger::ExportFormat::kCsv : ledger::ExportFormat::kJsonLines;
  wanted.from_seq = std::max<uint64_t>(options.from_seq, 1);
  const bool to_file = !options.out.empty() && options.out != "-";
  absl::StatusOr<ledger::ExportResult> result;
  {
    Progress progress(to_file);
    wanted.progress = [&](const ledger::ExportResult& so_far) {
      progress.Draw(fmt::format("{} records, at {}", so_far.records, so_far.last_seq));
    };
    if (to_file) {
      result = ledger::ExportToFile(dir, wanted, options.out);
    } else {
      if (options.format == "csv") fmt::print("{}", ledger::CsvHeader());
      bool broken = false;
      result = ledger::Export(dir, wanted, [&](std::string_view text) {
        broken = std::fwrite(text.data(), 1, text.size(), stdout) != text.size();
        return !broken;
      });
      if (result.ok() && (broken || std::fflush(stdout) != 0)) {
        result = absl::UnavailableError("standard output was closed before all was written");
      }
    }
  }
  if (!result.ok()) {
    fmt::print(stderr, "tidegate: {}\n", conf::Std(result.status().message()));
    return kFailed;
  }
  if (options.json) {
    const nlohmann::ordered_json summary = {
        {"records", result->records}, {"last_seq", result->last_seq}, {"file", options.out}};
    fmt::print(to_file ? stdout : stderr, "{}\n", summary.dump());
  } else if (to_file) {
    fmt::print("{}: {} added, the last with number {}\n", options.out, Counted(result->records, "record"),
               result->last_seq);
  }
  return kOk;
}

// "SEQ:HEX": a checkpoint's number and chain value that an auditor kept.
bool ReadAnchor(std::string_view text, ledger::VerifyOptions& out) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() - colon - 1 != 2 * out.anchor_link.size()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + colon, out.anchor_seq);
  if (error != std::errc{} || end != text.data() + colon || out.anchor_seq == 0) return false;
  for (size_t i = 0; i < out.anchor_link.size(); ++i) {
    const char* at = text.data() + colon + 1 + 2 * i;
    const auto [stop, wrong] = std::from_chars(at, at + 2, out.anchor_link[i], 16);
    if (wrong != std::errc{} || stop != at + 2) return false;
  }
  return true;
}

nlohmann::ordered_json ToJson(const ledger::VerifyReport& report) {
  nlohmann::ordered_json out = {{"ok", report.ok()}};
  if (report.first_bad) {
    out["first_bad"] = {{"segment", report.first_bad->segment},
                        {"line", report.first_bad->line},
                        {"seq", report.first_bad->seq},
                        {"why", report.first_bad->why}};
  }
  out["records"] = report.records;
  out["segments"] = report.segments;
  out["first_seq"] = report.first_seq;
  out["last_seq"] = report.last_seq;
  out["last_chain"] = report.last_link;
  out["checkpoints"] = report.checkpoints;
  out["last_checkpoint_seq"] = report.last_checkpoint_seq;
  out["unsigned_records"] = report.unsigned_records;
  out["open_requests"] = report.open_requests;
  return out;
}

int Verify(const AuditOptions& options) {
  ledger::VerifyOptions wanted;
  if (!options.anchor.empty() && !ReadAnchor(options.anchor, wanted)) {
    fmt::print(
        stderr,
        "tidegate: --anchor: \"{}\" is not NUMBER:CHAIN, the number of a checkpoint and 64 hex digits\n",
        options.anchor);
    return kUsage;
  }
  std::optional<Config> config;
  std::string dir;
  if (const int code = FindLedger(options, config, dir); code != kOk) return code;
  const std::string key_path = options.public_key.empty() ? dir + "/signing.pub" : options.public_key;
  const auto key = ledger::PublicKey::Load(key_path);
  if (!key.ok()) {
    fmt::print(stderr, "tidegate: {}\n", conf::Std(key.status().message()));
    return kFailed;
  }
  absl::StatusOr<ledger::VerifyReport> report;
  {
    Progress progress(true);
    wanted.progress = [&](uint64_t done, uint64_t total) {
      progress.Draw(
          fmt::format("{} of {} MiB, {}%", done >> 20, total >> 20, total == 0 ? 100 : done * 100 / total));
    };
    report = ledger::Verify(dir, *key, wanted);
  }
  if (!report.ok()) {
    fmt::print(stderr, "tidegate: {}\n", conf::Std(report.status().message()));
    return kFailed;
  }
  if (options.json) {
    fmt::print("{}\n", ToJson(*report).dump());
  } else if (const auto& bad = report->first_bad) {
    fmt::print("{}: BAD at {}{}{}: {}\n", dir, bad->segment,
               bad->line ? fmt::format(" line {}", bad->line) : "",
               bad->seq ? fmt::format(" (record {})", bad->seq) : "", bad->why);
  } else {
    fmt::print("{}: good: {} ({} to {}) in {}, {}; {} not signed yet, {} open\n", dir,
               Counted(report->records, "record"), report->first_seq, report->last_seq,
               Counted(report->segments, "segment"), Counted(report->checkpoints, "checkpoint"),
               Counted(report->unsigned_records, "record"), Counted(report->open_requests, "request"));
  }
  return report->ok() ? kOk : kFailed;
}

int Tail(const AuditOptions& options) {
  std::optional<Config> config;
  std::string dir;
  if (const int code = FindLedger(options, config, dir); code != kOk) return code;
  uint64_t after = options.from_seq > 0 ? options.from_seq - 1 : 0;
  if (options.from_seq == 0) {
    // Reads only the last segment, to find the end.
    const auto segments = ledger::ListSegments(dir);
    if (!segments.ok()) return Fail(segments.status());
    if (!segments->empty()) {
      uint64_t last = segments->back().first_seq - 1;
      ledger::Tail end(dir, last);
      while (true) {
        const auto batch = end.Read(kTailRecords, kTailBytes);
        if (!batch.ok()) return Fail(batch.status());
        if (batch->lines.empty()) break;
        last = batch->lines.back().seq;
      }
      after = last > options.last ? last - options.last : 0;
    }
  }
  ledger::Tail tail(dir, after);
  while (true) {
    const auto batch = tail.Read(kTailRecords, kTailBytes);
    if (!batch.ok()) return Fail(batch.status());
    for (const ledger::Tail::Line& line : batch->lines) fmt::print("{}\n", line.text);
    if (std::fflush(stdout) != 0) return kFailed;
    if (!batch->lines.empty()) continue;
    if (!options.follow) return kOk;
    std::this_thread::sleep_for(kTailInterval);
  }
}

CLI::App* AddAction(CLI::App& audit, Run& run, const char* name, const char* what,
                    const std::shared_ptr<AuditOptions>& options, int (*action)(const AuditOptions&)) {
  CLI::App* command = audit.add_subcommand(name, what);
  options->config = AddConfigOption(*command);
  command->add_option("--ledger", options->ledger, "The folder of a ledger, instead of the configuration's");
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

}  // namespace

void AddAudit(CLI::App& app, Run& run) {
  CLI::App* audit = app.add_subcommand("audit", "Export, verify and follow the ledger");
  audit->require_subcommand(1);

  auto options = std::make_shared<AuditOptions>();
  CLI::App* take =
      AddAction(*audit, run, "export", "Write records to a file or to standard output", options, Export);
  AuditRequest& request = options->request;
  take->add_option("--since", request.since,
                   "The begin: an age such as 7d, or a time such as 2027-01-31T00:00:00Z");
  take->add_option("--until", request.until, "The end, not included; in the form of --since");
  take->add_option("--kind", request.kinds,
                   "Only these kinds: open, close, content, config, key, admin, action, start, stop, ...")
      ->delimiter(',');
  take->add_option("--tenant", request.tenant, "Only this tenant and the tenants below it");
  take->add_option("--model", request.model, "Only this model");
  take->add_option("--from-seq", options->from_seq, "The number of the first record");
  take->add_option("--format", options->format, "jsonl or csv")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->capture_default_str();
  take->add_option("-o,--out", options->out, "The file to write; default: standard output");
  take->add_flag("--json", options->json, "Print the summary as JSON");
  take->footer(
      "With --out, the same command again adds only the new records.\n\n"
      "Examples:\n"
      "  tidegate audit export --since 30d --kind close --tenant search --format csv --out search.csv\n"
      "  tidegate audit export --kind config,key,admin | jq .action");

  options = std::make_shared<AuditOptions>();
  CLI::App* verify =
      AddAction(*audit, run, "verify", "Check that no record was changed, removed or moved", options, Verify);
  verify->add_option("--public-key", options->public_key,
                     "The signing.pub that an auditor keeps; default: the ledger's own");
  verify->add_option("--anchor", options->anchor,
                     "NUMBER:CHAIN of a checkpoint that the ledger must contain");
  verify->add_flag("--json", options->json, "Print the report as JSON");
  verify->footer(
      "When a record was changed, prints the first bad one; exit code 1.\n\n"
      "Examples:\n"
      "  tidegate audit verify\n"
      "  tidegate audit verify --ledger /backup/ledger --public-key auditor/signing.pub");

  options = std::make_shared<AuditOptions>();
  CLI::App* tail = AddAction(*audit, run, "tail", "Print the last records of the ledger", options, Tail);
  tail->add_option("-n,--last", options->last, "How many records")->capture_default_str();
  tail->add_option("--from-seq", options->from_seq, "The number of the first record, instead of --last");
  tail->add_flag("-f,--follow", options->follow, "Keep printing new records until ctrl-C");
  tail->footer(
      "Examples:\n  tidegate audit tail -n 100\n  tidegate audit tail -f | jq 'select(.kind==\"close\")'");
}

}  // namespace gateway::cli
