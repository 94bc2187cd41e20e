#include "gateway/cli/audit_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "conf/hex.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/ledger/proof.h"
#include "gateway/ledger/verify.h"
#include "gateway/process/checkpoint_copy.h"

namespace gateway::cli {
namespace {

constexpr size_t kMostProof = 64 << 20;

// What the chain is compared with, and what cannot be compared.
struct Elsewhere {
  std::vector<ledger::KeptCheckpoints> kept;
  std::vector<std::string> missing;
};

// "SEQ:HEX": a checkpoint's number and chain value that an auditor kept.
std::optional<ledger::KeptCheckpoints> ReadAnchor(std::string_view text) {
  ledger::KeptCheckpoints kept{.where = "--anchor", .checkpoints = {{}}};
  ledger::KeptCheckpoints::Checkpoint& anchor = kept.checkpoints.front();
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + colon, anchor.seq);
  if (error != std::errc{} || end != text.data() + colon || anchor.seq == 0) return std::nullopt;
  if (!conf::ParseHex(text.substr(colon + 1), anchor.link)) return std::nullopt;
  return kept;
}

// The newest file that a sink has set aside, as its current one may have just begun; empty: none.
std::string NewestRotated(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string stem = file.filename().string() + ".";
  std::string newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           file.has_parent_path() ? file.parent_path() : std::filesystem::path("."), error)) {
    if (entry.path().filename().string().starts_with(stem)) newest = std::max(newest, entry.path().string());
  }
  return newest;
}

void AddFile(const std::string& path, Elsewhere& out) {
  absl::StatusOr<ledger::KeptCheckpoints> kept = ledger::ReadKeptCheckpoints(path);
  if (!kept.ok()) {
    out.missing.emplace_back(conf::Std(kept.status().message()));
  } else if (kept->checkpoints.empty()) {
    out.missing.push_back(fmt::format("{} has no checkpoint", path));
  } else {
    out.kept.push_back(*std::move(kept));
  }
}

void AddConfigured(const Config& config, Elsewhere& out) {
  absl::StatusOr<std::optional<ledger::KeptCheckpoints>> stored = StoredCheckpoint(config);
  if (!stored.ok()) out.missing.emplace_back(conf::Std(stored.status().message()));
  if (stored.ok() && *stored) out.kept.push_back(**std::move(stored));
  for (const config::Sink& sink : config.ledger.sinks) {
    const auto* file = std::get_if<config::FileSink>(&sink.to);
    if (file == nullptr) continue;
    AddFile(file->path, out);
    if (const std::string rotated = NewestRotated(file->path); !rotated.empty()) AddFile(rotated, out);
  }
}

// What an attacker who can write the ledger's folder could have replaced with it.
void AddGaps(const VerifyCommand& command, const ledger::VerifyReport& report, Elsewhere& out) {
  if (command.public_key.empty()) {
    out.missing.push_back(
        "the signatures are checked with the key beside the ledger, which can be replaced with it: give "
        "--public-key a signing.pub that was kept elsewhere");
  }
  uint64_t newest = 0;
  for (const ledger::Compared& compared : report.compared) {
    if (compared.where == kStoredCheckpoint) continue;  // in the same state_dir
    newest = std::max(newest, compared.newest);
  }
  if (newest == 0) {
    out.missing.push_back(
        "no checkpoint from elsewhere is compared, so a tail that was cut together with head.json, or a "
        "replaced ledger, is not noticed: give --checkpoints a sink's file, or --anchor");
  } else if (newest < report.last_seq) {
    out.missing.push_back(fmt::format("{} after record {}, the newest checkpoint from elsewhere",
                                      Counted(report.last_seq - newest, "record"), newest));
  }
}

nlohmann::ordered_json ToJson(const ledger::VerifyReport& report, const std::vector<std::string>& missing) {
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
  out["compared"] = nlohmann::ordered_json::array();
  for (const ledger::Compared& compared : report.compared) {
    out["compared"].push_back({{"where", compared.where},
                               {"found", compared.found},
                               {"removed", compared.removed},
                               {"newest", compared.newest}});
  }
  out["not_compared"] = missing;
  return out;
}

void PrintReport(const std::string& dir, const ledger::VerifyReport& report,
                 const std::vector<std::string>& missing) {
  if (const auto& bad = report.first_bad) {
    fmt::print("{}: BAD at {}{}{}: {}\n", dir, bad->segment,
               bad->line ? fmt::format(" line {}", bad->line) : "",
               bad->seq ? fmt::format(" (record {})", bad->seq) : "", bad->why);
    return;
  }
  fmt::print("{}: good: {} ({} to {}) in {}, {}; {} not signed yet, {} open\n", dir,
             Counted(report.records, "record"), report.first_seq, report.last_seq,
             Counted(report.segments, "segment"), Counted(report.checkpoints, "checkpoint"),
             Counted(report.unsigned_records, "record"), Counted(report.open_requests, "request"));
  for (const ledger::Compared& compared : report.compared) {
    fmt::print(
        "compared with {}: {}{}\n", compared.where, Counted(compared.found, "checkpoint"),
        compared.removed == 0 ? "" : fmt::format("; {} older than the first record", compared.removed));
  }
  if (!OutputWritten()) return;
  for (const std::string& gap : missing) fmt::print(stderr, "tidegate: not compared: {}\n", gap);
}

int Failed(const absl::Status& status) {
  Fail(status);
  return kFailed;
}

}  // namespace

int VerifyProof(const std::string& path, const std::string& public_key, bool json) {
  if (public_key.empty()) {
    return Fail(
        absl::InvalidArgumentError("--public-key: missing; give the signing.pub of the gateway, from "
                                   "another source than the proof"));
  }
  const absl::StatusOr<std::string> text = ReadWhole(path, kMostProof);
  if (!text.ok()) return Fail(text.status());
  const absl::StatusOr<ledger::Proof> proof = ledger::ParseProof(*text);
  if (!proof.ok())
    return Fail(absl::InvalidArgumentError(
        conf::Abseil(fmt::format("--proof: {}: {}", path, conf::Std(proof.status().message())))));
  const auto key = ledger::PublicKey::Load(public_key);
  if (!key.ok()) return Failed(key.status());
  const absl::StatusOr<ledger::ProofReport> report = ledger::CheckProof(*proof, *key);
  if (json) {
    nlohmann::ordered_json out = {{"ok", report.ok()}, {"record", proof->record}};
    if (report.ok()) {
      out["checkpoint"] = report->checkpoint;
      out["checkpoint_chain"] = conf::Hex(report->link);
    } else {
      out["why"] = conf::Std(report.status().message());
    }
    fmt::print("{}\n", out.dump());
  } else if (report.ok()) {
    fmt::print("record {}: good: checkpoint {} signs it; its chain is {}\n{}\n", proof->record,
               report->checkpoint, conf::Hex(report->link), conf::Visible(proof->lines.front()));
  } else {
    fmt::print("record {}: BAD: {}\n", proof->record, conf::Std(report.status().message()));
  }
  return report.ok() ? kOk : kFailed;
}

int VerifyLedger(const VerifyCommand& command) {
  Elsewhere elsewhere;
  if (!command.anchor.empty()) {
    std::optional<ledger::KeptCheckpoints> anchor = ReadAnchor(command.anchor);
    if (!anchor) {
      fmt::print(stderr,
                 "tidegate: --anchor: \"{}\" is not NUMBER:CHAIN, the number of a checkpoint and 64 hex "
                 "digits\n",
                 command.anchor);
      return kUsage;
    }
    elsewhere.kept.push_back(*std::move(anchor));
  }
  for (const std::string& path : command.checkpoints) {
    AddFile(path, elsewhere);
    if (elsewhere.missing.empty()) continue;
    return Failed(absl::FailedPreconditionError("--checkpoints: " + elsewhere.missing.front()));
  }
  if (command.config) AddConfigured(*command.config, elsewhere);
  const auto key =
      ledger::PublicKey::Load(command.public_key.empty() ? command.dir + "/signing.pub" : command.public_key);
  if (!key.ok()) return Failed(key.status());
  const absl::StatusOr<ledger::VerifyReport> report =
      ledger::Verify(command.dir, *key, {.kept = std::move(elsewhere.kept), .progress = command.progress});
  if (command.finished) command.finished();
  if (!report.ok()) return Failed(report.status());
  AddGaps(command, *report, elsewhere);
  if (command.json) {
    fmt::print("{}\n", ToJson(*report, elsewhere.missing).dump());
  } else {
    PrintReport(command.dir, *report, elsewhere.missing);
  }
  return report->ok() ? kOk : kFailed;
}

}  // namespace gateway::cli
