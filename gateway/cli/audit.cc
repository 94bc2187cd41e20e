// tidegate audit: exports records of the ledger, follows it, and compares it with its chain and checkpoints.
// It only reads; a gateway may run at the same time.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "conf/text.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/audit/merged_export.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/audit_erase.h"
#include "gateway/cli/audit_remote.h"
#include "gateway/cli/audit_verify.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/recorded_read.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/proof.h"
#include "gateway/ledger/segment.h"
#include "gateway/ledger/tail.h"
#include "gateway/net/clock.h"
#include "gateway/process/ledger_options.h"

namespace gateway::cli {
namespace {

constexpr auto kTailInterval = std::chrono::milliseconds(100);
constexpr size_t kTailRecords = 1024;
constexpr size_t kTailBytes = 1 << 20;
constexpr size_t kMostMadeProof = 32 << 20;

struct AuditOptions {
  AdminOptions admin;
  std::string ledger;            // the folder, if no configuration is used
  std::vector<std::string> all;  // folders of ledgers, to be merged
  AuditRequest request;
  std::string format = "jsonl";
  std::string out;
  VerifyCommand verify;
  uint64_t last = 10;
  std::string proof;  // a file
  uint64_t from_seq = 0;
  bool follow = false;
  bool open_content = false;
  bool json = false;
};

// One line on a terminal that is overwritten again and again; nothing elsewhere.
class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown && isatty(STDERR_FILENO) == 1) {}
  ~Progress() { Clear(); }

  void Clear() {
    if (std::exchange(drawn_, false)) fmt::print(stderr, "\r\033[K");
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

// Why a folder that was named is no ledger; empty: it is one. Segments or the key of a gateway show it.
std::string WhyNoLedger(const std::string& dir) {
  const auto segments = ledger::ListSegments(dir);
  if (!std::filesystem::is_directory(dir)) return "there is no such folder; name the folder of a ledger";
  if (!segments.ok() || !segments->empty() || std::filesystem::exists(dir + "/signing.pub")) return {};
  const std::string below = dir + "/ledger";
  return fmt::format("this folder has no ledger: neither segments nor signing.pub{}",
                     std::filesystem::is_directory(below) ? fmt::format("; did you mean {}?", below) : "");
}

// Finds the ledger; an exit code if there is none.
int FindLedger(const AuditOptions& options, std::optional<Config>& config, std::string& dir) {
  dir = options.ledger;
  if (dir.empty()) {
    config = LoadOwnConfig(options.admin, options.json);
    if (!config) return kUsage;
    dir = LedgerDir(*config);
    if (std::filesystem::is_directory(dir)) return kOk;
    fmt::print(stderr,
               "tidegate: {}: there is no ledger; start a gateway with this configuration first, or name "
               "another folder\n",
               dir);
    return kFailed;
  }
  config.emplace();
  const std::string why = WhyNoLedger(dir);
  if (!why.empty()) fmt::print(stderr, "tidegate: {}: {}\n", dir, why);
  return why.empty() ? kOk : kFailed;
}

int ReadRequest(const AuditOptions& options, const Config& config, ledger::ExportOptions& out) {
  return PrintOptionProblems(CheckAuditRequest(options.request, config, net::Now(), out));
}

// Leaves a record of the reader. A ledger that was named by its folder is nobody's to record in.
absl::Status RecordReader(const AuditOptions& options, const Config& config, std::string_view action,
                          const std::string& tenant) {
  if (!options.ledger.empty() && !options.open_content) return absl::OkStatus();
  const AuditRequest& request = options.request;
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = action;
  event.actor = Actor();
  event.tenant = tenant;
  event.detail =
      nlohmann::ordered_json{{"kinds", request.kinds}, {"since", request.since},
                             {"until", request.until}, {"model", request.model},
                             {"out", options.out},     {"content", options.open_content ? "open" : ""}}
          .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return RecordRead(config, std::move(event));
}

// Texts are not shown without a record; for the rest a warning must do.
int CheckRecorded(const AuditOptions& options, const absl::Status& recorded) {
  if (recorded.ok()) return kOk;
  fmt::print(stderr, "tidegate: the ledger gets no record of this: {}\n", conf::Std(recorded.message()));
  return options.open_content ? kFailed : kOk;
}

RemoteAudit RemoteOf(const AuditOptions& options) {
  return {.admin = options.admin,
          .request = options.request,
          .format = options.format,
          .out = options.out,
          .from_seq = options.from_seq,
          .last = options.last,
          .follow = options.follow,
          .open_content = options.open_content,
          .json = options.json};
}

// A folder that was named is read here.
bool IsElsewhere(const AuditOptions& options) {
  return options.ledger.empty() && AsksGateway(options.admin);
}

// The ledgers of several gateways, in the order of time.
int ExportAll(const AuditOptions& options) {
  if (options.format == "csv" || options.open_content || options.from_seq != 0 || !options.ledger.empty()) {
    return Fail(
        absl::InvalidArgumentError("--all writes JSON lines of whole ledgers; it goes without --format csv, "
                                   "--open-content, --from-seq and "
                                   "--ledger"));
  }
  for (const std::string& dir : options.all) {
    const std::string why = WhyNoLedger(dir);
    if (why.empty()) continue;
    fmt::print(stderr, "tidegate: {}: {}\n", dir, why);
    return kFailed;
  }
  ledger::ExportOptions wanted;
  if (const int code = ReadRequest(options, Config(), wanted); code != kOk) return code;
  const bool to_file = !options.out.empty() && options.out != "-";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      to_file ? std::fopen(options.out.c_str(), "wx") : nullptr,
      [](std::FILE* of) { return std::fclose(of); });
  if (to_file && !file) {
    fmt::print(stderr, "tidegate: {}: {}\n", options.out, std::strerror(errno));
    return kFailed;
  }
  bool broken = false;
  const absl::StatusOr<uint64_t> records = ExportMerged(options.all, wanted, [&](std::string_view line) {
    broken = file ? std::fwrite(line.data(), 1, line.size(), file.get()) != line.size() : !WriteOutput(line);
    return !broken;
  });
  if (!records.ok()) return Fail(records.status());
  if (file && (broken || std::fflush(file.get()) != 0))
    return Fail(absl::UnavailableError(
        fmt::format("the export into {} is not complete: {}", options.out, std::strerror(errno))));
  if (!file && (broken || !OutputWritten())) return Fail(OutputError());
  if (options.json) {
    const nlohmann::ordered_json summary = {
        {"records", *records}, {"ledgers", options.all.size()}, {"file", options.out}};
    fmt::print(to_file ? stdout : stderr, "{}\n", summary.dump());
  } else if (to_file) {
    fmt::print("{}: {} of {}\n", options.out, Counted(*records, "record"),
               Counted(options.all.size(), "ledger"));
  }
  return kOk;
}

int Export(const AuditOptions& options) {
  if (!options.all.empty()) return ExportAll(options);
  if (IsElsewhere(options)) return ExportThere(RemoteOf(options));
  std::optional<Config> config;
  std::string dir;
  if (const int code = FindLedger(options, config, dir); code != kOk) return code;
  ledger::ExportOptions wanted;
  std::unique_ptr<ledger::ContentKeys> keys;
  if (options.open_content) {
    if (!options.ledger.empty()) config = LoadOwnConfig(options.admin, options.json);
    if (!config) return kUsage;
    ledger::ContentKeys::Options of = ContentKeyOptions(*config);
    of.may_write = false;
    auto opened = ledger::ContentKeys::Open(std::move(of));
    if (!opened.ok()) return Fail(opened.status());
    keys = *std::move(opened);
    wanted.content = keys.get();
  }
  if (const int code = ReadRequest(options, *config, wanted); code != kOk) return code;
  wanted.format = options.format == "csv" ? ledger::ExportFormat::kCsv : ledger::ExportFormat::kJsonLines;
  wanted.from_seq = std::max<uint64_t>(options.from_seq, 1);
  if (const int code = CheckRecorded(options, RecordReader(options, *config, "audit.export", wanted.tenant));
      code != kOk) {
    return code;
  }
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
        broken = !WriteOutput(text);
        return !broken;
      });
      if (result.ok() && (broken || !OutputWritten())) result = OutputError();
    }
  }
  if (!result.ok()) {
    Fail(result.status());
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

int Prove(const AuditOptions& options) {
  absl::StatusOr<std::string> text;
  if (IsElsewhere(options)) {
    text = AskText(options.admin, fmt::format("/admin/v1/audit/records/{}/proof", options.from_seq));
  } else {
    std::optional<Config> config;
    std::string dir;
    if (const int code = FindLedger(options, config, dir); code != kOk) return code;
    const absl::StatusOr<ledger::Proof> proof = ledger::MakeProof(dir, options.from_seq, kMostMadeProof);
    if (proof.ok()) {
      text = ledger::ProofText(*proof);
    } else {
      text = proof.status();
    }
  }
  if (!text.ok()) return Fail(text.status());
  const absl::Status written =
      options.out.empty() || options.out == "-" ? Print(*text) : WriteWhole(options.out, *text);
  return written.ok() ? kOk : Fail(written);
}

int Verify(const AuditOptions& options) {
  if (!options.proof.empty()) {
    if (!options.ledger.empty() || !options.verify.checkpoints.empty() || !options.verify.anchor.empty()) {
      return Fail(
          absl::InvalidArgumentError("--ledger, --checkpoints and --anchor have no effect with --proof, "
                                     "which is verified by itself with "
                                     "--public-key; leave them out"));
    }
    return VerifyProof(options.proof, options.verify.public_key, options.json);
  }
  if (IsElsewhere(options)) {
    const VerifyCommand& here = options.verify;
    if (!here.public_key.empty() || !here.checkpoints.empty() || !here.anchor.empty()) {
      return Fail(
          absl::InvalidArgumentError("--public-key, --checkpoints and --anchor are for a ledger that is read "
                                     "here: give --ledger or --config"));
    }
    return VerifyThere(RemoteOf(options));
  }
  VerifyCommand command = options.verify;
  std::optional<Config> config;
  if (const int code = FindLedger(options, config, command.dir); code != kOk) return code;
  if (options.ledger.empty()) command.config = &*config;
  command.json = options.json;
  Progress progress(true);
  command.progress = [&](uint64_t done, uint64_t total) {
    progress.Draw(
        fmt::format("{} of {} MiB, {}%", done >> 20, total >> 20, total == 0 ? 100 : done * 100 / total));
  };
  command.finished = [&] { progress.Clear(); };
  return VerifyLedger(command);
}

int Tail(const AuditOptions& options) {
  if (IsElsewhere(options)) return TailThere(RemoteOf(options));
  std::optional<Config> config;
  std::string dir;
  if (const int code = FindLedger(options, config, dir); code != kOk) return code;
  CheckRecorded(options, RecordReader(options, *config, "audit.tail", ""));
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
    if (!OutputWritten()) return kFailed;
    if (!batch->lines.empty()) continue;
    if (!options.follow) return kOk;
    std::this_thread::sleep_for(kTailInterval);
  }
}

CLI::App* AddAction(CLI::App& audit, Run& run, const char* name, const char* what,
                    const std::shared_ptr<AuditOptions>& options, int (*action)(const AuditOptions&)) {
  CLI::App* command = audit.add_subcommand(name, what);
  options->admin.config = AddConfigOption(*command);
  AddGatewayOptions(*command, options->admin);
  command->add_option("--ledger", options->ledger, "The folder of a ledger, instead of the configuration's");
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

}  // namespace

void AddAudit(CLI::App& app, Run& run) {
  CLI::App* audit = app.add_subcommand("audit", "Export, verify and follow the ledger; erase stored content");
  audit->require_subcommand(1);

  auto options = std::make_shared<AuditOptions>();
  CLI::App* take =
      AddAction(*audit, run, "export", "Write records to a file or to standard output", options, Export);
  AuditRequest& request = options->request;
  take->add_option("--since", request.since,
                   "The beginning: an age such as 7d, or a time such as 2027-01-31T00:00:00Z");
  take->add_option("--until", request.until, "The end, not included; in the form of --since");
  take->add_option("--kind", request.kinds,
                   "Only these kinds: open, close, content, config, key, admin, action, start, stop, ...")
      ->delimiter(',');
  take->add_option("--tenant", request.tenant, "Only this tenant and the tenants below it");
  take->add_option("--model", request.model, "Only this model");
  take->add_option("--from-seq", options->from_seq, "The number of the first record");
  take->add_option(
      "--all", options->all,
      "The folders of several gateways' ledgers: all records in the order of time, each with its "
      "ledger, and the last signed checkpoint of each");
  take->add_flag("--open-content", options->open_content,
                 "Write prompts and answers as text instead of sealed, as they are stored; needs the "
                 "gateway's keys");
  take->add_option("--format", options->format, "jsonl or csv")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->capture_default_str();
  take->add_option("-o,--out", options->out, "The file to write; default: standard output");
  take->add_flag("--json", options->json, "Print the summary as JSON");
  take->footer(
      "With --out, the same command again adds only the new records. The ledger gets a record of each "
      "export.\n\n"
      "Examples:\n"
      "  tidegate audit export --since 30d --kind close --tenant search --format csv --out search.csv\n"
      "  tidegate audit export --kind config,key,admin | jq .action\n"
      "  tidegate audit export --all gw-a/ledger gw-b/ledger gw-c/ledger --out all.jsonl");

  options = std::make_shared<AuditOptions>();
  CLI::App* verify =
      AddAction(*audit, run, "verify",
                "Compare the ledger with its chain of hashes and its signed checkpoints", options, Verify);
  verify->add_option(
      "--public-key", options->verify.public_key,
      "The signing.pub that an auditor keeps elsewhere; default: the ledger's own, with a warning");
  verify->add_option("--checkpoints", options->verify.checkpoints,
                     "A file with checkpoints that were kept elsewhere, such as a sink's; may be repeated");
  verify->add_option("--anchor", options->verify.anchor,
                     "NUMBER:CHAIN of a checkpoint that the ledger must contain");
  verify->add_option("--proof", options->proof,
                     "Verify the proof of one record in this file, with --public-key, instead of a ledger");
  verify->add_flag("--json", options->json, "Print the report as JSON");
  verify->footer(
      "If a record was changed, prints the first bad one; exit code 1. Files beside the ledger can be "
      "replaced with\n"
      "it, so the command warns of everything that it could not compare with a copy from elsewhere.\n\n"
      "Examples:\n"
      "  tidegate audit verify\n"
      "  tidegate audit verify --ledger /backup/ledger --public-key auditor/signing.pub \\\n"
      "    --checkpoints /archive/ledger.jsonl\n"
      "  tidegate audit verify --proof record-4711.json --public-key auditor/signing.pub");

  options = std::make_shared<AuditOptions>();
  CLI::App* prove = AddAction(
      *audit, run, "proof", "Print a record with the lines up to the next signed checkpoint", options, Prove);
  prove->add_option("record", options->from_seq, "The number of the record")->required();
  prove->add_option("-o,--out", options->out, "The file to write; default: standard output");
  prove->footer(
      "Somebody outside verifies it with tidegate audit verify --proof FILE. The proof also shows the "
      "records up to\n"
      "the checkpoint, which may belong to other tenants.\n\n"
      "Example:\n"
      "  tidegate audit proof 4711 --out record-4711.json");

  options = std::make_shared<AuditOptions>();
  CLI::App* tail = AddAction(*audit, run, "tail", "Print the last records of the ledger", options, Tail);
  tail->add_option("-n,--last", options->last, "How many records")->capture_default_str();
  tail->add_option("--from-seq", options->from_seq, "The number of the first record, instead of --last");
  tail->add_flag("-f,--follow", options->follow, "Keep printing new records until ctrl-C");
  tail->footer(
      "Examples:\n  tidegate audit tail -n 100\n  tidegate audit tail -f | jq 'select(.kind==\"close\")'");
  AddEraseContent(*audit, run);
}

}  // namespace gateway::cli
