#include "gateway/audit/merged_export.h"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/text.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/segment.h"
#include "gateway/net/files.h"

namespace gateway {
namespace {

constexpr uint64_t kRecordsAtOnce = 1000;

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One of the ledgers, and its next records.
class LedgerSource {
 public:
  static absl::StatusOr<LedgerSource> Open(const std::string& dir, const ledger::ExportOptions& wanted) {
    // Before its records: what comes later stands behind the checkpoint.
    absl::StatusOr<std::string> head = net::ReadFile(dir + "/head.json", ledger::LineReader::kMaxLine);
    if (!head.ok() && !absl::IsNotFound(head.status())) return head.status();
    absl::StatusOr<ledger::ExportSteps> steps = ledger::ExportSteps::Begin(dir, wanted);
    if (!steps.ok()) return steps.status();
    std::string checkpoint = head.ok() ? *std::move(head) : std::string();
    while (checkpoint.ends_with('\n')) checkpoint.pop_back();
    return LedgerSource(dir, *std::move(steps), std::move(checkpoint));
  }

  // Has a next record, unless there is none.
  absl::Status Fill() {
    while (lines_.empty() && !ended_) {
      const absl::StatusOr<bool> more = steps_.Step(kRecordsAtOnce, [this](std::string_view text) {
        for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
          lines_.emplace_back(text.substr(0, end));
          text.remove_prefix(end + 1);
        }
        return true;
      });
      if (!more.ok()) return more.status();
      ended_ = !*more;
    }
    return absl::OkStatus();
  }

  // Of the next record; nothing at the end.
  std::optional<int64_t> time() const {
    if (lines_.empty()) return std::nullopt;
    const std::optional<ledger::LineParts> parts = ledger::SplitLine(lines_.front());
    return parts ? parts->time_us : last_time_;
  }
  std::string Take() {
    last_time_ = time().value_or(last_time_);
    std::string line = fmt::format("{{\"ledger\":{},\"record\":{}}}\n", name_, lines_.front());
    lines_.pop_front();
    ++records_;
    return line;
  }
  std::string Proof() const {
    return fmt::format("{{\"ledger\":{},\"records\":{},\"last_seq\":{},\"checkpoint\":{}}}\n", name_,
                       records_, steps_.result().last_seq, checkpoint_.empty() ? "null" : checkpoint_);
  }
  uint64_t records() const { return records_; }

 private:
  LedgerSource(const std::string& dir, ledger::ExportSteps steps, std::string checkpoint)
      : name_(Quoted(dir)), checkpoint_(std::move(checkpoint)), steps_(std::move(steps)) {}

  std::string name_;
  std::string checkpoint_;
  ledger::ExportSteps steps_;
  std::deque<std::string> lines_;
  int64_t last_time_ = 0;
  uint64_t records_ = 0;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<uint64_t> ExportMerged(const std::vector<std::string>& ledgers,
                                      const ledger::ExportOptions& wanted,
                                      const std::function<bool(std::string_view)>& out) {
  std::vector<LedgerSource> sources;
  for (const std::string& dir : ledgers) {
    absl::StatusOr<LedgerSource> source = LedgerSource::Open(dir, wanted);
    if (!source.ok()) {
      return absl::Status(source.status().code(),
                          conf::Abseil(fmt::format("{}: {}", dir, conf::Std(source.status().message()))));
    }
    sources.push_back(*std::move(source));
  }
  uint64_t records = 0;
  while (true) {
    LedgerSource* next = nullptr;
    for (LedgerSource& source : sources) {
      if (absl::Status filled = source.Fill(); !filled.ok()) return filled;
      if (source.time() && (next == nullptr || *source.time() < *next->time())) next = &source;
    }
    if (next == nullptr) break;
    if (!out(next->Take())) return records;
    ++records;
  }
  for (const LedgerSource& source : sources) {
    if (!out(source.Proof())) break;
  }
  return records;
}

}  // namespace gateway
