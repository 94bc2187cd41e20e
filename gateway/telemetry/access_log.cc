#include "gateway/telemetry/access_log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include "conf/hash.h"
#include "conf/json_writer.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/thread.h"

namespace gateway::telemetry {
namespace {

constexpr int kAccessLogNice = 10;
// Records that come within this time are written together: waking the thread for each costs more than writing it.
constexpr auto kAccessLogGather = std::chrono::milliseconds(50);
constexpr size_t kGatheredAccess = AccessLog::kMaxQueuedBytes / 4;
// A pipe that polls as writable takes this much without blocking (PIPE_BUF).
constexpr size_t kAtOnce = 4096;
constexpr conf::Duration kPatience = std::chrono::seconds(1);  // with a reader that does not read
constexpr int kPollMs = 100;

// Milliseconds with three decimals.
double Millis(conf::Duration d) {
  return std::round(static_cast<double>(d.count()) / 1e3) / 1e3;
}

}  // namespace

size_t AccessRecord::bytes() const {
  size_t total = sizeof(AccessRecord);
  for (const std::string* text : {&request_id, &client_request_id, &trace_id, &client, &tenant, &key_id, &api,
                                  &model, &served_model, &replica, &reason, &code, &limit}) {
    total += text->capacity();
  }
  return total;
}

std::string RenderAccess(const AccessRecord& record) {
  std::string line;
  conf::JsonWriter out(line);
  const auto text = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out.Key(key).String(value);
  };
  const auto count = [&](std::string_view key, uint64_t value) { out.Key(key).Number(value); };
  const auto millis = [&](std::string_view key, const std::optional<conf::Duration>& value) {
    if (value) out.Key(key).Number(Millis(*value));
  };
  out.Open('{');
  out.Key("time").String(conf::FormatTime(record.ended));
  out.Key("event").String("access");
  text("request_id", record.request_id);
  text("client_request_id", record.client_request_id);
  text("trace_id", record.trace_id);
  text("client", record.client);
  text("tenant", record.tenant);
  text("key_id", record.key_id);
  text("api", record.api);
  text("model", record.model);
  text("served_model", record.served_model);
  text("replica", record.replica);
  out.Key("status").Number(record.status);
  text("reason", record.reason);
  text("code", record.code);
  text("limit", record.limit);
  out.Key("stream").Bool(record.stream);
  count("attempts", record.attempts);
  count("bytes_in", record.bytes_in);
  count("bytes_out", record.bytes_out);
  count("input_tokens", record.input_tokens);
  count("cached_tokens", record.cached_tokens);
  count("output_tokens", record.output_tokens);
  out.Key("cost_micro_usd").Number(record.cost_micro_usd);
  millis("queue_ms", record.queued);
  millis("first_token_ms", record.first_token);
  millis("total_ms", record.total);
  out.Close('}');
  line += '\n';
  return line;
}

bool IsLogged(std::string_view request_id, double sample) {
  if (sample >= 1) return true;
  if (!(sample > 0)) return false;
  uint64_t hash = conf::Fnv1a(request_id);  // then the finaliser of MurmurHash3
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
  hash ^= hash >> 33;
  return static_cast<double>(hash >> 11) < std::ldexp(sample, 53);
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void AccessLog::Configure(std::string file) {
  const std::lock_guard lock(mutex_);
  file_ = std::move(file);
  reopen_ = true;
}

void AccessLog::Reopen() {
  const std::lock_guard lock(mutex_);
  reopen_ = true;
}

void AccessLog::Add(AccessRecord record) {
  const size_t bytes = record.bytes();
  const std::lock_guard lock(mutex_);
  if (closed_ || queued_bytes_ + bytes > kMaxQueuedBytes) {
    ++stats_.dropped_queue;
    return;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  const bool enough = queued_bytes_ < kGatheredAccess && queued_bytes_ + bytes >= kGatheredAccess;
  queued_bytes_ += bytes;
  queue_.push_back(std::move(record));
  if (queue_.size() == 1 || enough) wake_.notify_one();
}

AccessLog::Stats AccessLog::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void AccessLog::Run() {
  NameThread("access-log");
  YieldToShards(kAccessLogNice);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    wake_.wait_for(lock, kAccessLogGather, [this] { return closed_ || queued_bytes_ >= kGatheredAccess; });
    const std::vector<AccessRecord> records = std::exchange(queue_, {});
    const std::string file = file_;
    const bool reopen = std::exchange(reopen_, false);
    lock.unlock();
    const size_t written = Write(records, file, reopen);
    lock.lock();
    stats_.written += written;
    stats_.dropped_write += records.size() - written;
    // Records that are being written still count as queued.
    queued_bytes_ = 0;
    for (const AccessRecord& record : queue_) queued_bytes_ += record.bytes();
  }
}

size_t AccessLog::Write(const std::vector<AccessRecord>& records, const std::string& file, bool reopen) {
  if (reopen) fd_ = {};
  size_t written = 0;
  size_t lines = 0;
  std::string piece;
  const auto put = [&] {
    if (lines == 0) return true;
    const absl::Status status = Put(piece, file);
    if (status.ok()) written += lines;
    piece.clear();
    lines = 0;
    if (status.ok() == !failing_) return status.ok();
    failing_ = !status.ok();
    if (failing_) {
      log::Error("access log cannot be written: lines are dropped", {{"why", conf::Std(status.message())}});
    } else {
      log::Info("access log is written again");
    }
    return status.ok();
  };
  for (const AccessRecord& record : records) {
    const std::string line = RenderAccess(record);
    if (piece.size() + line.size() > kAtOnce && !put()) return written;  // the others would wait, too
    piece += line;
    ++lines;
  }
  put();
  return written;
}

// Whole lines. A pipe or a terminal whose reader has stopped must not hold this thread for ever: the process could not end.
absl::Status AccessLog::Put(std::string_view lines, const std::string& file) {
  if (!file.empty()) {
    if (!fd_) {
      auto opened = net::OpenFile(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK);
      if (!opened.ok()) return opened.status();
      fd_ = *std::move(opened);
    }
    const absl::Status status = net::WriteAll(fd_.get(), file, lines);
    if (!status.ok()) fd_ = {};
    return status;
  }
  const conf::TimePoint until = net::Now() + kPatience;
  while (!lines.empty()) {
    pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int polled = poll(&ready, 1, kPollMs);
    if (polled < 0 && errno != EINTR) return net::SystemError("write", "standard error", errno);
    if (polled <= 0) {
      if (net::Now() >= until) return absl::UnavailableError("standard error accepts no lines");
      continue;
    }
    const ssize_t sent = write(STDERR_FILENO, lines.data(), std::min(lines.size(), kAtOnce));
    if (sent < 0 && errno != EINTR && errno != EAGAIN)
      return net::SystemError("write", "standard error", errno);
    if (sent > 0) lines.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

}  // namespace gateway::telemetry
