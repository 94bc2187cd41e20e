#include "gateway/process/checkpoint_copy.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/audit/sink_source.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/segment.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"
#include "gateway/process/open_state.h"
#include "gateway/store/kinds.h"
#include "gateway/store/sqlite_store.h"

namespace gateway {
namespace {

constexpr char kId[] = "ledger";
constexpr conf::Duration kInterval = std::chrono::seconds(1);

// Of a checkpoint's line.
std::optional<ledger::KeptCheckpoints::Checkpoint> ReadLine(std::string_view line) {
  while (line.ends_with('\n')) line.remove_suffix(1);
  const std::optional<ledger::LineParts> parts = ledger::SplitLine(line);
  if (!parts) return std::nullopt;
  return ledger::KeptCheckpoints::Checkpoint{.seq = parts->seq, .link = parts->link};
}

// Why a ledger lacks a checkpoint; empty: it has it, or retention has removed its place.
absl::StatusOr<std::string> WhyMissing(const std::string& ledger_dir,
                                       const ledger::KeptCheckpoints::Checkpoint& kept) {
  const auto segments = ledger::ListSegments(ledger_dir);
  if (!segments.ok()) return segments.status();
  if (!segments->empty() && segments->front().first_seq > kept.seq) return std::string();
  const absl::StatusOr<std::string> link = SinkSource(ledger_dir, [] { return UINT64_MAX; }).Link(kept.seq);
  if (!link.ok()) return link.status();
  if (*link == conf::Hex(kept.link)) return std::string();
  return fmt::format("{} checkpoint {}, which the store knows: {}; see tidegate audit verify",
                     link->empty() ? "it does not have" : "it has another record in place of", kept.seq,
                     link->empty() ? "its tail was cut, or it was replaced" : "it was replaced or rewritten");
}

// Without a start: nothing is taken over, and a file that is missing is not made.
absl::StatusOr<std::unique_ptr<store::Store>> OpenToRead(net::Loop& loop, const Config& config) {
  if (config.state) return OpenState(loop, config);
  store::SqliteStoreOptions options;
  options.file.path = StorePath(config.server.state_dir);
  options.file.may_be_new = false;
  return store::OpenSqliteStore(loop, std::move(options));
}

}  // namespace

CheckpointCopy::CheckpointCopy(net::Loop& loop, store::Store& store, std::string ledger_dir)
    : Alarm(loop.watchdog), loop_(loop), store_(store), ledger_dir_(std::move(ledger_dir)) {}

net::Task<absl::Status> CheckpointCopy::Start() {
  absl::StatusOr<std::optional<store::Object>> found = co_await store_.Get(store::kCheckpoint, kId);
  if (!found.ok()) co_return found.status();
  stored_ = *std::move(found);
  const auto kept = stored_ ? ReadLine(stored_->body) : std::nullopt;
  if (kept) {
    stored_seq_ = kept->seq;
    absl::StatusOr<std::string> missing =
        co_await net::OffLoop(loop_, [this, &kept] { return WhyMissing(ledger_dir_, *kept); });
    if (!missing.ok()) co_return missing.status();
    trouble_ = *std::move(missing);
  }
  if (trouble_.empty()) {
    SetAfter(kInterval);
  } else {
    log::Error("the ledger is not the one that the store knows", {{"why", trouble_}});
  }
  co_return absl::OkStatus();
}

void CheckpointCopy::Stop() {
  stopped_ = true;
  Clear();
}

void CheckpointCopy::OnAlarm() {
  if (!std::exchange(copying_, true)) loop_.tasks.Spawn(Copy());
}

net::Task<void> CheckpointCopy::Copy() {
  const absl::Status copied = co_await CopyNow();
  copying_ = false;
  if (copied.ok()) {
    failing_ = false;
  } else if (!std::exchange(failing_, true)) {
    log::Warn("the store has no copy of the last checkpoint yet; retrying",
              {{"why", conf::Std(copied.message())}});
  }
  if (!stopped_) SetAfter(kInterval);
}

net::Task<absl::Status> CheckpointCopy::CopyNow() {
  absl::StatusOr<std::string> head = co_await net::OffLoop(
      loop_, [this] { return net::ReadFile(ledger_dir_ + "/head.json", ledger::LineReader::kMaxLine); });
  if (absl::IsNotFound(head.status())) co_return absl::OkStatus();  // there is none yet
  if (!head.ok()) co_return head.status();
  const auto checkpoint = ReadLine(*head);
  if (!checkpoint || checkpoint->seq <= stored_seq_) co_return absl::OkStatus();
  std::vector<store::Write> writes;
  writes.push_back(stored_ ? store::Write::Replace(*stored_, *head)
                           : store::Write::Create(store::kCheckpoint, kId, *head));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (!committed.ok()) {
    // It may have been written all the same.
    if (auto found = co_await store_.Get(store::kCheckpoint, kId); found.ok()) stored_ = *std::move(found);
    co_return committed.status();
  }
  stored_ = store::Object{store::kCheckpoint, kId, committed->last, *std::move(head)};
  stored_seq_ = checkpoint->seq;
  co_return absl::OkStatus();
}

absl::StatusOr<std::optional<ledger::KeptCheckpoints>> StoredCheckpoint(const Config& config) {
  std::error_code error;
  if (!config.state && !std::filesystem::exists(StorePath(config.server.state_dir), error))
    return std::nullopt;
  net::Loop loop([](const std::exception_ptr& thrown) { log::Exception("checkpoint", thrown); });
  std::optional<ledger::KeptCheckpoints> kept;
  absl::Status status;
  if (auto store = OpenToRead(loop, config); store.ok()) {
    const auto found = net::Await(loop, (*store)->Get(store::kCheckpoint, kId));
    status = found.status();
    const auto checkpoint = found.ok() && *found ? ReadLine((*found)->body) : std::nullopt;
    if (checkpoint) kept = ledger::KeptCheckpoints{.where = kStoredCheckpoint, .checkpoints = {*checkpoint}};
  } else {
    status = store.status();
  }
  loop.Stop();
  loop.Run();
  if (!status.ok()) return status;
  return kept;
}

}  // namespace gateway
