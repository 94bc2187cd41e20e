#include "gateway/audit_delivery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway {
namespace {

absl::Status FileError(std::string_view what, const std::string& path) {
  return absl::UnavailableError(fmt::format("{} {}: {}", what, path, std::generic_category().message(errno)));
}

bool SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = fsync(fd) == 0;
  close(fd);
  return synced;
}

absl::StatusOr<uint64_t> LoadCursor(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return 0;
  if (fd < 0) return FileError("read", path);
  std::array<char, 32> text;
  const ssize_t n = read(fd, text.data(), text.size());
  close(fd);
  if (n < 0) return FileError("read", path);
  uint64_t seq = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + n, seq);
  if (error != std::errc() || end + 1 != text.data() + n || *end != '\n') {
    return absl::DataLossError(
        fmt::format("cursor {}: not a sequence number; write the last delivered one there, or remove it to "
                    "deliver all again",
                    path));
  }
  return seq;
}

absl::Status SaveCursor(const std::string& folder, const std::string& path, uint64_t seq) {
  const std::string fresh = path + ".new";
  const std::string text = fmt::format("{}\n", seq);
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return FileError("write", fresh);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  absl::Status status = written ? absl::OkStatus() : FileError("write", fresh);
  close(fd);
  if (status.ok() && (std::rename(fresh.c_str(), path.c_str()) != 0 || !SyncFolder(folder))) {
    status = FileError("replace", path);
  }
  return status;
}

bool IsFileName(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !name.empty() && name.front() != '.' && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditDelivery>> AuditDelivery::Start(
    net::Loop& loop, Source source, std::unique_ptr<plugins::sinks::Sink> sink, Options options) {
  if (!IsFileName(options.name)) {
    return absl::InvalidArgumentError(fmt::format(
        "sink name \"{}\": letters, digits, '-', '_' and '.' only, and no '.' first", options.name));
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return absl::UnavailableError(fmt::format("make {}: {}", options.folder, error.message()));
  std::string path = fmt::format("{}/{}.cursor", options.folder, options.name);
  const absl::StatusOr<uint64_t> cursor = LoadCursor(path);
  if (!cursor.ok()) return cursor.status();
  return std::unique_ptr<AuditDelivery>(new AuditDelivery(loop, std::move(source), std::move(sink),
                                                          std::move(options), std::move(path), *cursor));
}

AuditDelivery::AuditDelivery(net::Loop& loop, Source source, std::unique_ptr<plugins::sinks::Sink> sink,
                             Options options, std::string cursor_path, uint64_t cursor)
    : loop_(loop),
      source_(std::move(source)),
      sink_(std::move(sink)),
      options_(std::move(options)),
      cursor_path_(std::move(cursor_path)),
      backoff_(options_.min_backoff, options_.max_backoff, options_.seed),
      max_records_(std::max<size_t>(1, std::min(options_.batch_records, sink_->limits().records))),
      pause_(loop.watchdog),
      read_at_(net::Now()) {
  status_.name = options_.name;
  status_.target = sink_->Describe();
  status_.delivered_seq = cursor;
  loop_.tasks.Spawn(Run());
}

SinkStatus AuditDelivery::status(conf::TimePoint now) const {
  const uint64_t last = source_.last_seq();
  const std::scoped_lock lock(mutex_);
  SinkStatus status = status_;
  if (last > status.delivered_seq) {
    status.lag_records = last - status.delivered_seq;
    status.lag = std::max(now - oldest_.value_or(read_at_), conf::Duration(0));
  }
  return status;
}

void AuditDelivery::Wake() {
  woken_ = true;
  if (waiting_) pause_.Cancel();
}

void AuditDelivery::Close() {
  if (std::exchange(closed_, true)) return;
  sink_->Close();
  pause_.Cancel();
}

net::Task<void> AuditDelivery::Stop() {
  Close();
  co_await ended_.Wait();
}

// The last step touches nothing of this object: whoever waits for the end may destroy it.
net::Task<void> AuditDelivery::Run() {
  co_await Keep();
  ended_.Set();
}

net::Task<void> AuditDelivery::Keep() {
  while (!closed_) {
    absl::Status status = NextBatch();
    const bool any = !batch_.empty();
    if (status.ok() && any) status = co_await DeliverBatch();
    if (closed_) break;
    if (!status.ok()) {
      Failed(status);
      co_await pause_.For(backoff_.Next());
    } else if (!std::exchange(woken_, false) && (!any || !full_)) {
      waiting_ = true;
      co_await pause_.For(options_.batch_interval);
      waiting_ = woken_ = false;
    }
  }
}

// A batch that failed is kept: it goes out again as it was, so that the peer can know it.
absl::Status AuditDelivery::NextBatch() {
  if (!batch_.empty()) return absl::OkStatus();
  auto read = source_.read(status_.delivered_seq, max_records_);
  {
    const std::scoped_lock lock(mutex_);
    read_at_ = net::Now();
  }
  if (!read.ok()) return read.status();
  batch_ = *std::move(read);
  if (batch_.empty()) return absl::OkStatus();
  full_ = batch_.size() >= max_records_;
  size_t bytes = 0;
  size_t fit = 0;
  while (fit < batch_.size() && (fit == 0 || bytes + batch_[fit].line.size() <= sink_->limits().bytes)) {
    bytes += batch_[fit++].line.size() + 1;
  }
  if (fit < batch_.size()) {
    full_ = true;
    batch_.resize(fit);
  }
  NoteGap();
  const std::scoped_lock lock(mutex_);
  oldest_ = batch_.front().at;
  return absl::OkStatus();
}

net::Task<absl::Status> AuditDelivery::DeliverBatch() {
  const absl::Status delivered = co_await sink_->Deliver(batch_);
  if (!delivered.ok()) {
    if (delivered.code() == absl::StatusCode::kResourceExhausted && batch_.size() > 1) {
      max_records_ = batch_.size() / 2;
      batch_.resize(max_records_);
      full_ = true;
    }
    co_return delivered;
  }
  const uint64_t seq = batch_.back().seq;
  const absl::Status saved =
      co_await net::OffLoop(loop_, [this, seq] { return SaveCursor(options_.folder, cursor_path_, seq); });
  Delivered(saved);
  co_return absl::OkStatus();
}

// A sink that is new begins with what the ledger still has.
void AuditDelivery::NoteGap() {
  const uint64_t expected = status_.delivered_seq + 1;
  if (status_.delivered_seq == 0 || batch_.front().seq <= expected) return;
  const uint64_t gone = batch_.front().seq - expected;
  {
    const std::scoped_lock lock(mutex_);
    status_.missing += gone;
    status_.last_error = fmt::format(
        "{} records from {} on were gone from the ledger before they were delivered", gone, expected);
    status_.last_error_at = net::Now();
    status_.delivered_seq += gone;
  }
  Tell();
}

// A cursor that could not be saved is an error to see, but the sink has the records: go on, and save the next
// one.
void AuditDelivery::Delivered(const absl::Status& saved) {
  backoff_.Reset();
  const bool failing = !saved.ok();
  bool changed = false;
  {
    const std::scoped_lock lock(mutex_);
    status_.delivered_seq = batch_.back().seq;
    status_.records += batch_.size();
    oldest_.reset();
    changed = status_.failing != failing;
    status_.failing = failing;
    if (failing) {
      ++status_.failures;
      status_.last_error = conf::Std(saved.message());
      status_.last_error_at = net::Now();
    }
  }
  batch_.clear();
  if (changed) Tell();
}

void AuditDelivery::Failed(const absl::Status& why) {
  bool changed = false;
  {
    const std::scoped_lock lock(mutex_);
    changed = !status_.failing;
    status_.failing = true;
    ++status_.failures;
    status_.last_error = conf::Std(why.message());
    status_.last_error_at = net::Now();
  }
  if (changed) Tell();
}

void AuditDelivery::Tell() {
  if (options_.on_change) options_.on_change(status(net::Now()));
}

}  // namespace gateway
