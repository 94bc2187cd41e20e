#include "gateway/ledger/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/ledger/recovery.h"
#include "gateway/net/files.h"
#include "gateway/net/resource_owner.h"
#include "gateway/thread.h"

namespace gateway::ledger {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kCommitterNice = 5;  // a commit may wait a moment for requests, but no request for a commit
constexpr size_t kCommitBytes = 1 << 20;
constexpr auto kFirstRetry = std::chrono::milliseconds(20);
constexpr auto kLastRetry = std::chrono::milliseconds(500);
constexpr auto kRest = std::chrono::seconds(1);  // without a record; then memory is returned
// A child of a killed process keeps its locks until it has become another program.
constexpr auto kLockPatience = std::chrono::seconds(2);
constexpr auto kLockRetry = std::chrono::milliseconds(50);

uint64_t MicrosSince(Steady::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - begin).count());
}

absl::Status LockIsHeld(const std::string& dir, const std::string& lock) {
  const std::string owner = net::LockOwner(lock);
  return absl::FailedPreconditionError(conf::Abseil(
      fmt::format("{} is in use by {}: a ledger has only one writer; give each gateway its own state_dir",
                  dir, owner.empty() ? "another process" : owner)));
}

absl::StatusOr<net::Fd> Lock(const std::string& dir) {
  const std::string path = dir + "/lock";
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_CREAT | O_RDWR);
  if (!file.ok()) return file;
  const Steady::time_point until = Steady::now() + kLockPatience;
  while (flock(file->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return net::SystemError("lock", path, errno);
    if (Steady::now() >= until) return LockIsHeld(dir, path);
    std::this_thread::sleep_for(kLockRetry);
  }
  return file;
}

size_t EventBytes(const Event& event) {
  return event.action.size() + event.actor.size() + event.subject.size() + event.tenant.size() +
         event.detail.size();
}

size_t EventBytes(const std::vector<Event>& events) {
  size_t bytes = events.size() * sizeof(Event);
  for (const Event& event : events) bytes += EventBytes(event);
  return bytes;
}

// Checks an event, and changes its detail to the form in which it is written.
absl::Status CheckEvent(Event& event) {
  constexpr std::array kByCallers = {Kind::kConfig, Kind::kKey,      Kind::kAdmin,
                                     Kind::kAction, Kind::kRefusals, Kind::kFeedback};
  if (std::ranges::find(kByCallers, event.kind) == kByCallers.end()) {
    return absl::InvalidArgumentError(conf::Abseil(fmt::format(
        "only the ledger writes records of kind {}: append config, key, admin, action, refusals or feedback",
        Name(event.kind))));
  }
  if (!event.detail.empty()) {
    const nlohmann::json detail = conf::ParseJson(event.detail);
    if (!detail.is_object())
      return absl::InvalidArgumentError("the detail of a ledger record must be a JSON object");
    event.detail = conf::DumpJson(detail);
  }
  if (const size_t bytes = EventBytes(event); bytes > kMaxEvent) {
    return absl::InvalidArgumentError(conf::Abseil(
        fmt::format("the ledger record has {} bytes, but may have at most {}", bytes, kMaxEvent)));
  }
  return absl::OkStatus();
}

size_t DeviceBytes(const std::vector<DeviceRecord>& records) {
  size_t bytes = 0;
  for (const DeviceRecord& record : records) {
    bytes +=
        sizeof record + record.tenant.size() + record.model.size() + record.job.size() + record.device.size();
  }
  return bytes;
}

absl::Status NoRoomToBegin(const std::string& journal) {
  return absl::ResourceExhaustedError(conf::Abseil(fmt::format(
      "{} cannot be created while records of the last process wait for disk space: free some space",
      journal)));
}

std::string JournalPath(const std::string& dir, uint32_t shard) {
  return fmt::format("{}/journal-{}", dir, shard);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(Options options) {
  if (options.shards == 0) return absl::InvalidArgumentError("the ledger has 0 shards: it needs at least 1");
  if (options.journal_dir.empty()) options.journal_dir = options.dir;
  if (!options.clock) {
    options.clock = [] {
      return std::chrono::time_point_cast<conf::Duration>(std::chrono::system_clock::now());
    };
  }
  if (options.files == nullptr) options.files = &FileOps::Posix();
  for (const std::string& dir : {options.dir, options.journal_dir}) {
    if (absl::Status made = net::MakeDirectories(dir); !made.ok()) return made;
  }
  absl::StatusOr<net::Fd> lock = Lock(options.dir);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(options.dir);
  if (!segments.ok()) return segments.status();
  absl::StatusOr<SigningKey> key = SigningKey::LoadOrCreate(options.dir, segments->empty());
  if (!key.ok()) return key.status();
  const std::string public_path = options.dir + "/signing.pub";
  const std::string pem = key->public_key().Pem();
  if (absl::StatusOr<std::string> have = net::ReadFile(public_path, 64 * 1024); !have.ok() || *have != pem) {
    if (absl::Status written = net::ReplaceFile(public_path, pem, 0644); !written.ok()) return written;
  }
  absl::StatusOr<Recovered> found =
      Recover(options.dir, options.journal_dir, key->public_key(), options.files);
  if (!found.ok()) return found.status();
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(options), *std::move(lock), *std::move(key)));
  if (absl::Status begun = ledger->Begin(*std::move(found)); !begun.ok()) return begun;
  return ledger;
}

Ledger::Ledger(Options options, net::Fd lock, SigningKey key)
    : options_(std::move(options)),
      lock_(std::move(lock)),
      key_(std::move(key)),
      durable_n_(std::make_unique<std::atomic<uint64_t>[]>(options_.shards)),
      cursor_(options_.shards, 0),
      drained_n_(options_.shards, 0),
      waiters_(options_.shards),
      settled_at_(Steady::now()) {}

Ledger::~Ledger() {
  Stop().IgnoreError();
}

absl::Status Ledger::Begin(Recovered found) {
  committer_ = std::make_unique<Committer>(CommitOptions{.dir = options_.dir,
                                                         .segment_bytes = options_.segment_bytes,
                                                         .segment_age = options_.segment_age,
                                                         .checkpoint_records = options_.checkpoint_records,
                                                         .checkpoint_interval = options_.checkpoint_interval,
                                                         .retain_for = options_.retain_for,
                                                         .retain_bytes = options_.retain_bytes,
                                                         .clock = options_.clock,
                                                         .files = options_.files},
                                           &key_, std::move(found.state));
  if (absl::Status ready = committer_->Ready(); !ready.ok()) return ready;
  Replay(&found);
  committer_->AddCheckpoint(false);
  // It begins even on a full disk: the recovered records wait to be written, and opens are refused.
  const absl::Status written = committer_->Commit();
  if (!written.ok() && !net::IsDiskFull(written)) return written;
  if (absl::Status made = MakeJournals(found, written.ok()); !made.ok()) return made;
  if (written.ok()) {
    Settle();
  } else {
    SetHealth(written);
  }
  if (options_.counts_served) committer_->BeginCounting();
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void Ledger::Replay(Recovered* found) {
  committer_->AddEvent(
      {.kind = Kind::kStart, .action = "started", .actor = "gateway", .subject = options_.version});
  if (found->torn_bytes > 0) {
    committer_->AddRecovery("torn_tail_set_aside",
                            fmt::format(R"({{"bytes":{},"file":"{}","sha256":"{}"}})", found->torn_bytes,
                                        found->torn_file, found->torn_sha256));
  }
  if (found->lost_below > 0) {
    committer_->AddRecovery("signed_records_missing", fmt::format(R"({{"checkpoint_seq":{},"chain":"{}"}})",
                                                                  found->lost_below, found->lost_link));
  }
  if (found->damaged) committer_->AddRecovery("damaged_record_found", "{}");
  uint64_t unreadable = 0;
  const uint64_t before = committer_->records();
  absl::flat_hash_map<uint64_t, const JournalImage::OpenSlot*> slots;
  for (const JournalImage& image : found->journals) {
    for (const JournalImage::Frame& frame : image.frames)
      committer_->AddFrame(image.shard, frame.n, frame.payload);
    for (const JournalImage::OpenSlot& slot : image.slots) slots[OpenKey(image.shard, slot.open_n)] = &slot;
    unreadable += image.unreadable_bytes;
  }
  const uint64_t replayed = committer_->records() - before;
  std::vector<std::pair<uint64_t, uint64_t>> open;  // (seq, key)
  for (const auto& [key, request] : committer_->open()) open.emplace_back(request.seq, key);
  std::sort(open.begin(), open.end());
  for (const auto& [seq, key] : open) {
    CloseRecord record;
    record.reason = EndReason::kInterrupted;
    if (const auto slot = slots.find(key); slot != slots.end()) {
      record.counts = slot->second->counts;
      record.replica = slot->second->replica;
    }
    committer_->AddInterrupted(key, record);
  }
  if (replayed + open.size() + unreadable + found->unreadable_journals.size() > 0) {
    committer_->AddRecovery(
        "journals_replayed",
        fmt::format(R"({{"records":{},"interrupted":{},"unreadable_bytes":{},"unreadable_files":{}}})",
                    replayed, open.size(), unreadable, found->unreadable_journals.size()));
  }
}

// `recorded`: all records that were found in journals are in segments now.
absl::Status Ledger::MakeJournals(const Recovered& found, bool recorded) {
  for (const std::string& path : found.unreadable_journals) {
    if (absl::Status aside = net::RenameFile(path, path + ".unreadable"); !aside.ok()) return aside;
  }
  std::vector<std::string> kept;
  for (uint32_t shard = 0; shard < options_.shards; ++shard) {
    uint64_t last_n = committer_->last_n(shard);
    for (const JournalImage& image : found.journals) {
      if (image.shard == shard) last_n = std::max(last_n, image.last_n);
    }
    kept.push_back(JournalPath(options_.journal_dir, shard));
    const JournalLayout layout{.shard = shard,
                               .slots = options_.open_requests_per_shard,
                               .ring_bytes = options_.ring_bytes,
                               .first_n = last_n + 1};
    auto journal = ShardJournal::Reopen(kept.back(), layout, recorded, &healthy_);
    if (absl::IsNotFound(journal.status())) {
      if (!recorded) return NoRoomToBegin(kept.back());
      journal = ShardJournal::Create(kept.back(), layout, &healthy_);
    }
    if (!journal.ok()) return journal.status();
    journals_.push_back(*std::move(journal));
    cursor_[shard] = journals_.back()->committed();
    drained_n_[shard] = last_n;
  }
  if (!recorded) return absl::OkStatus();
  for (const std::string& path : found.journal_files) {
    if (std::find(kept.begin(), kept.end(), path) != kept.end()) continue;
    if (absl::Status removed = net::RemoveFile(path); !removed.ok()) return removed;
  }
  return net::SyncDirectory(options_.journal_dir);
}

void Ledger::OnDurable(Position position, std::function<void(const absl::Status&)> then) {
  const std::lock_guard lock(mutex_);
  waiters_[position.shard].push_back({position.n, std::move(then)});
  woken_ = true;
  wake_.notify_one();
}

absl::Status Ledger::Append(Event event) {
  std::vector<Event> events;
  events.push_back(std::move(event));
  return AppendAll(std::move(events));
}

absl::Status Ledger::AppendAll(std::vector<Event> events) {
  if (events.empty()) return absl::OkStatus();
  for (Event& event : events) {
    if (absl::Status valid = CheckEvent(event); !valid.ok()) return valid;
  }
  auto entry = std::make_shared<Queued>();
  entry->events = std::move(events);
  return Enqueue(std::move(entry));
}

absl::Status Ledger::Append(std::vector<DeviceRecord> records) {
  if (records.empty()) return absl::OkStatus();
  auto entry = std::make_shared<Queued>();
  entry->devices = std::move(records);
  return Enqueue(std::move(entry));
}

absl::StatusOr<std::vector<Served>> Ledger::TakeServed() {
  auto entry = std::make_shared<Queued>();
  entry->barrier = entry->takes_served = true;
  for (const std::unique_ptr<ShardJournal>& journal : journals_) entry->until.push_back(journal->committed());
  if (absl::Status taken = Enqueue(entry); !taken.ok()) return taken;
  return std::move(entry->served);
}

absl::Status Ledger::Flush() {
  auto entry = std::make_shared<Queued>();
  entry->barrier = true;
  for (const std::unique_ptr<ShardJournal>& journal : journals_) entry->until.push_back(journal->committed());
  return Enqueue(std::move(entry));
}

absl::Status Ledger::Enqueue(std::shared_ptr<Queued> entry) {
  const uint64_t bytes = sizeof(Queued) + EventBytes(entry->events) + DeviceBytes(entry->devices);
  std::unique_lock lock(mutex_);
  if (stopping_) return absl::UnavailableError("the ledger is stopped; nothing was written");
  if (queue_bytes_ + bytes > options_.event_queue_bytes) {
    return absl::ResourceExhaustedError(conf::Abseil(fmt::format(
        "the ledger's queue is full ({} bytes); nothing was written", options_.event_queue_bytes)));
  }
  queue_bytes_ += bytes;
  queue_.push_back(entry);
  woken_ = true;
  wake_.notify_one();
  const bool done =
      settled_.wait_for(lock, options_.append_timeout, [&] { return entry->done || entry->abandoned; });
  queue_bytes_ -= bytes;
  if (done && entry->done) return absl::OkStatus();
  entry->abandoned = true;
  std::erase(queue_, entry);
  const std::string why = stats_.last_error.empty() ? "" : ": " + stats_.last_error;
  return absl::UnavailableError(
      conf::Abseil(entry->taken ? "the ledger could not confirm the record, which may still be written" + why
                                : "the ledger could not take the record; nothing was written" + why));
}

absl::Status Ledger::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  return stop_status_;
}

void Ledger::Run() {
  NameThread("ledger");
  YieldToShards(kCommitterNice);
  Steady::time_point retained = Steady::now();
  std::chrono::nanoseconds pause = options_.commit_interval;
  bool failing = false;
  bool retaining = false;
  uint64_t last_seq = 0;
  Steady::time_point last_record = Steady::now();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      // After a failure the thread pauses before it tries the disk again, even if callers wake it.
      wake_.wait_for(lock, pause, [&] { return stopping_ || (woken_ && !failing); });
      woken_ = false;
      if (stopping_) break;
    }
    bool more = false;
    const absl::Status status = Cycle(&more);
    SetHealth(status);
    if (committer_->durable_seq() != last_seq) {
      last_seq = committer_->durable_seq();
      last_record = Steady::now();
    } else if (Steady::now() - last_record >= kRest) {
      for (const std::unique_ptr<ShardJournal>& journal : journals_) journal->ReturnMemory();
    }
    if (status.ok() && (retaining || Steady::now() - retained >= options_.retention_interval)) {
      retained = Steady::now();
      SetRetention(committer_->Retain(&retaining));
    }
    if (status.ok()) {
      pause = more || retaining ? std::chrono::nanoseconds::zero() : options_.commit_interval;
    } else {
      pause = failing ? std::min<std::chrono::nanoseconds>(2 * pause, kLastRetry) : kFirstRetry;
    }
    failing = !status.ok();
  }
  const Steady::time_point deadline = Steady::now() + options_.stop_timeout;
  bool said = false;
  while (true) {
    bool more = true;
    stop_status_ = absl::OkStatus();
    while (more && stop_status_.ok()) stop_status_ = Cycle(&more);
    if (stop_status_.ok() && !said) stop_status_ = committer_->Ready();
    if (stop_status_.ok() && !said) {
      said = true;
      committer_->AddEvent(
          {.kind = Kind::kStop, .action = "stopped", .actor = "gateway", .subject = options_.version});
      committer_->AddCheckpoint(false);
      continue;
    }
    if (stop_status_.ok() || Steady::now() >= deadline) break;
    std::this_thread::sleep_for(kFirstRetry);
  }
  if (!stop_status_.ok()) SetHealth(stop_status_);
  healthy_.store(false, std::memory_order_relaxed);
  RunWaiters(absl::UnavailableError("the ledger stopped before the record was on disk"));
  Abandon();
}

bool Ledger::HasWork() {
  for (size_t i = 0; i < journals_.size(); ++i) {
    if (journals_[i]->committed() != cursor_[i]) return true;
  }
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

bool Ledger::TakeWork() {
  {
    const std::lock_guard lock(mutex_);
    while (!queue_.empty()) {
      taken_.push_back(std::move(queue_.front()));
      taken_.back()->taken = true;
      queue_.pop_front();
    }
  }
  bool full = false;
  const auto shards = static_cast<uint32_t>(journals_.size());
  for (uint32_t i = 0; i < shards; ++i) {
    const uint32_t shard = (first_shard_ + i) % shards;
    journals_[shard]->Drain(&cursor_[shard], [&](uint64_t n, std::string_view payload) {
      committer_->AddFrame(shard, n, payload);
      drained_n_[shard] = n;
      full = committer_->pending_bytes() >= kCommitBytes;
      return !full;
    });
    if (full) break;
  }
  first_shard_ = (first_shard_ + 1) % shards;
  for (const std::shared_ptr<Queued>& entry : taken_) {
    if (entry->barrier) continue;
    for (const DeviceRecord& record : entry->devices) committer_->AddDevices(record);
    for (const Event& event : entry->events) committer_->AddEvent(event);
  }
  return full;
}

// Sets entry.served. Its caller waits for it, or has stopped waiting and never reads it.
void Ledger::TakeServed(Queued& entry) {
  for (size_t i = 0; i < journals_.size(); ++i) {
    journals_[i]->ForEachOpen([&](uint64_t n, const CloseRecord& so_far) {
      committer_->NoteProgress(OpenKey(static_cast<uint32_t>(i), n), so_far);
    });
  }
  entry.served = committer_->TakeServed();
}

bool Ledger::Reached(const Queued& entry) const {
  for (size_t i = 0; i < entry.until.size(); ++i) {
    if (cursor_[i] < entry.until[i]) return false;
  }
  return true;
}

absl::Status Ledger::Cycle(bool* more) {
  *more = false;
  const Steady::time_point begin = Steady::now();
  const uint64_t before = committer_->durable_seq();
  if (HasWork()) {
    if (absl::Status ready = committer_->Ready(); !ready.ok()) return ready;
    Settle();
    *more = TakeWork();
  }
  if (absl::Status written = committer_->Commit(); !written.ok()) return written;
  if (committer_->durable_seq() != before) {
    const uint64_t us = MicrosSince(begin);
    const std::lock_guard lock(mutex_);
    ++stats_.batches;
    stats_.commit_us_last = us;
    stats_.commit_us_max = std::max(stats_.commit_us_max, us);
    stats_.commit_us_total += us;
  }
  Settle();
  return absl::OkStatus();
}

// Called when everything that was taken from journals and queue is on disk.
void Ledger::Settle() {
  for (size_t i = 0; i < journals_.size(); ++i) {
    if (durable_n_[i].load(std::memory_order_relaxed) == drained_n_[i]) continue;
    journals_[i]->Release(cursor_[i]);
    durable_n_[i].store(drained_n_[i], std::memory_order_release);
  }
  for (const std::shared_ptr<Queued>& entry : taken_) {
    if (entry->takes_served && Reached(*entry)) TakeServed(*entry);
  }
  {
    const std::lock_guard lock(mutex_);
    stats_.records = committer_->records();
    stats_.durable_seq = committer_->durable_seq();
    settled_at_ = Steady::now();
    if (!taken_.empty()) {
      for (const std::shared_ptr<Queued>& entry : taken_) entry->done = Reached(*entry);
      std::erase_if(taken_, [](const std::shared_ptr<Queued>& entry) { return entry->done; });
      settled_.notify_all();
    }
  }
  RunWaiters(absl::OkStatus());
}

// Calls the waiters whose records are on disk; if `status` is an error, also the others.
void Ledger::RunWaiters(const absl::Status& status) {
  std::vector<std::pair<std::function<void(const absl::Status&)>, absl::Status>> run;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < waiters_.size(); ++i) {
      const uint64_t durable = durable_n_[i].load(std::memory_order_relaxed);
      while (!waiters_[i].empty() && (!status.ok() || waiters_[i].front().n <= durable)) {
        Waiter& waiter = waiters_[i].front();
        run.emplace_back(std::move(waiter.then), waiter.n <= durable ? absl::OkStatus() : status);
        waiters_[i].pop_front();
      }
    }
  }
  for (const auto& [then, outcome] : run) then(outcome);
}

// Ends the wait of all callers of Append and Flush.
void Ledger::Abandon() {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Queued>& entry : queue_) entry->abandoned = true;
  for (const std::shared_ptr<Queued>& entry : taken_) entry->abandoned = true;
  settled_.notify_all();
}

void Ledger::SetHealth(const absl::Status& status) {
  const bool was = healthy_.exchange(status.ok(), std::memory_order_relaxed);
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    stats_.last_error = std::string(conf::Std(status.message()));
  }
  if (was != status.ok() && options_.on_health_change) options_.on_health_change(status);
  // Checked in each round: a new waiter may have come.
  if (!status.ok()) {
    RunWaiters(absl::UnavailableError(
        conf::Abseil(fmt::format("the ledger cannot write: {}", conf::Std(status.message())))));
  }
}

void Ledger::SetRetention(const absl::Status& status) {
  if (retention_failing_ == !status.ok()) return;
  retention_failing_ = !status.ok();
  {
    const std::lock_guard lock(mutex_);
    stats_.retention_failing = retention_failing_;
  }
  if (options_.on_retention_change) options_.on_retention_change(status);
}

Stats Ledger::GetStats() const {
  Stats stats;
  Steady::time_point settled_at;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
    settled_at = settled_at_;
  }
  stats.healthy = Healthy();
  for (const std::unique_ptr<ShardJournal>& journal : journals_) {
    stats.queued_bytes += journal->pending_bytes();
    stats.open_requests += journal->open_requests();
    stats.refused_opens += journal->refused_opens();
    stats.dropped_records += journal->dropped_records();
  }
  if (stats.queued_bytes > 0) stats.lag_us = MicrosSince(settled_at);
  return stats;
}

}  // namespace gateway::ledger
