#include "gateway/net/redis.h"

#include <fmt/format.h>

#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "conf/words.h"
#include "gateway/net/clock.h"

namespace gateway::net {
namespace {

constexpr size_t kReadBytes = 16 << 10;

}  // namespace

constexpr conf::Word<RedisClient::Breaker> kBreakerStates[] = {
    {"closed", RedisClient::Breaker::kClosed},
    {"open", RedisClient::Breaker::kOpen},
    {"half-open", RedisClient::Breaker::kHalfOpen}};

std::string_view BreakerName(RedisClient::Breaker breaker) {
  return conf::WordOf(kBreakerStates, breaker);
}

RedisClient::RedisClient(Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      backoff_(options_.min_backoff, options_.max_backoff, options_.seed),
      in_(kReadBytes),
      pause_(loop.watchdog),
      connect_alarm_(loop.watchdog,
                     [this] {
                       connect_late_ = true;
                       if (connector_) connector_->Abort();
                       if (stream_) stream_->Close();
                     }),
      command_alarm_(loop.watchdog, [this] { OnCommandAlarm(); }) {
  state_.since = Now();
  sent_.Set();
  loop_.tasks.Spawn(Run());
}

RedisClient::~RedisClient() = default;

std::string RedisClient::address() const {
  return fmt::format("{}:{}", options_.remote.host, options_.remote.port);
}

absl::Status RedisClient::Unavailable(std::string_view why) const {
  return absl::UnavailableError(fmt::format("redis {}: {}", address(), why));
}

void RedisClient::SetBreaker(Breaker breaker) {
  if (state_.breaker == breaker) return;
  state_.breaker = breaker;
  state_.since = Now();
}

void RedisClient::Close() {
  if (std::exchange(closed_, true)) return;
  if (connector_) connector_->Abort();
  if (stream_) stream_->Close();
  pause_.Cancel();
}

Task<void> RedisClient::Stop() {
  Close();
  co_await ended_.Wait();
}

Task<RedisClient::Reply> RedisClient::One(RedisCommand command) {
  std::vector<RedisCommand> one;
  one.push_back(std::move(command));
  std::vector<Reply> replies = co_await Pipeline(std::move(one));
  co_return std::move(replies.front());
}

Task<std::vector<RedisClient::Reply>> RedisClient::Pipeline(std::vector<RedisCommand> commands) {
  Batch batch;
  batch.waiting = commands.size();
  if (commands.empty()) co_return std::move(batch.replies);
  if (closed_ || state_.breaker != Breaker::kClosed) {
    state_.refused += commands.size();
    batch.replies.assign(commands.size(), closed_                 ? Unavailable("the client is closed")
                                          : state_.reason.empty() ? Unavailable("not connected yet")
                                                                  : absl::UnavailableError(state_.reason));
    co_return std::move(batch.replies);
  }
  std::string bytes;
  std::vector<size_t> ends;
  ends.reserve(commands.size());
  for (const RedisCommand& command : commands) {
    AppendRedisCommand(bytes, command);
    ends.push_back(bytes.size());
  }
  if (pending_bytes_ + bytes.size() > options_.max_pending_bytes) {
    state_.dropped += commands.size();
    batch.replies.assign(
        commands.size(),
        absl::ResourceExhaustedError(
            fmt::format("redis {}: {} bytes of commands wait for answers, {} more are over the limit of {}",
                        address(), pending_bytes_, bytes.size(), options_.max_pending_bytes)));
    co_return std::move(batch.replies);
  }
  const conf::TimePoint deadline = Now() + options_.timeout;
  if (pending_.empty()) command_alarm_.Set(deadline);
  batch.replies.assign(commands.size(), absl::UnknownError("not answered"));
  for (size_t i = 0; i < ends.size(); ++i) {
    pending_.push_back({&batch, i, ends[i] - (i == 0 ? 0 : ends[i - 1]), deadline});
  }
  pending_bytes_ += bytes.size();
  unsent_ += bytes;
  Flush();
  co_await batch.done.Wait();
  co_return std::move(batch.replies);
}

void RedisClient::Flush() {
  if (!state_.connected || unsent_.empty() || !sent_.is_set()) return;
  sent_.Reset();
  loop_.tasks.Spawn(Send());
}

Task<void> RedisClient::Send() {
  while (state_.connected && !unsent_.empty()) {
    sending_.clear();
    sending_.swap(unsent_);
    // The reader sees the failure, too, and ends the connection.
    if (!co_await stream_->Write(AsBuffer(sending_))) stream_->Close();
  }
  sent_.Set();
}

// The last step must not touch the client: the task that waits for the end may destroy it.
Task<void> RedisClient::Run() {
  co_await KeepConnected();
  ended_.Set();
}

Task<void> RedisClient::KeepConnected() {
  while (!closed_) {
    const absl::Status lost = co_await Connection();
    ++state_.failures;
    state_.reason = conf::Std(lost.message());
    if (answered_here_ > 0) backoff_.Reset();
    const conf::Duration wait = backoff_.Next();
    // A connection that served and was lost (a restart, an idle time-out of the server) is made again at
    // once.
    const bool at_once = answered_here_ > 0 && !command_late_;
    if (!at_once) {
      state_.retry_at = Now() + wait;
      SetBreaker(Breaker::kOpen);
    }
    FailPending(lost);
    if (closed_) break;
    if (at_once) continue;
    co_await pause_.For(wait);
    SetBreaker(Breaker::kHalfOpen);
  }
}

Task<absl::Status> RedisClient::Connection() {
  answered_here_ = 0;
  connect_late_ = false;
  command_late_ = false;
  connector_ = std::make_unique<Connector>(loop_.io);
  connect_alarm_.SetAfter(options_.connect_timeout);
  ConnectResult connected = co_await connector_->Connect(options_.remote);
  connector_.reset();
  absl::Status status;
  if (connected.error) {
    status = Unavailable(connected.error.message());
  } else {
    stream_ = std::move(connected.stream);
    reader_ = std::make_unique<RedisReader>(options_.max_reply_bytes);
    status = co_await Shake();
  }
  connect_alarm_.Clear();
  if (connect_late_) {
    status = Unavailable(
        fmt::format("no connection that answers within {}", conf::InWords(options_.connect_timeout)));
  }
  if (status.ok() && !closed_) {
    state_.connected = true;
    ++state_.connects;
    state_.reason.clear();
    SetBreaker(Breaker::kClosed);
    Flush();
    status = co_await Answer();
    if (command_late_) {
      status = Unavailable(fmt::format("no answer to a command within {}", conf::InWords(options_.timeout)));
    }
  }
  if (closed_) status = Unavailable("the client is closed");
  state_.connected = false;
  command_alarm_.Clear();
  if (stream_) {
    stream_->Close();
    co_await sent_.Wait();
    stream_.reset();
  }
  co_return status;
}

Task<absl::Status> RedisClient::Shake() {
  std::vector<RedisCommand> steps;
  if (!options_.password.empty()) {
    RedisCommand auth{"AUTH"};
    if (!options_.username.empty()) auth.push_back(options_.username);
    auth.push_back(options_.password);
    steps.push_back(std::move(auth));
  }
  if (options_.database != 0) steps.push_back({"SELECT", fmt::format("{}", options_.database)});
  steps.push_back({"PING"});
  std::string bytes;
  for (const RedisCommand& step : steps) AppendRedisCommand(bytes, step);
  if (const IoResult written = co_await stream_->Write(AsBuffer(bytes)); !written) {
    co_return Unavailable(written.error.message());
  }
  absl::Status refused;
  for (const RedisCommand& step : steps) {
    const Reply reply = co_await NextReply();
    if (!reply.ok()) co_return refused.ok() ? reply.status() : refused;
    if (reply->is_error() && refused.ok()) {
      refused = Unavailable(fmt::format("{} was refused: {}", step.front(), reply->text));
    }
  }
  co_return refused;
}

Task<absl::Status> RedisClient::Answer() {
  while (true) {
    Reply reply = co_await NextReply();
    if (!reply.ok()) co_return reply.status();
    if (pending_.empty()) co_return Unavailable("an answer came without a command");
    ++answered_here_;
    ++state_.commands;
    Resolve(std::move(reply));
  }
}

Task<RedisClient::Reply> RedisClient::NextReply() {
  RedisReply reply;
  while (true) {
    switch (reader_->Take(reply)) {
      case RedisReader::Next::kReply:
        co_return reply;
      case RedisReader::Next::kBroken:
        co_return Unavailable(fmt::format("not a RESP answer: {}", reader_->error()));
      case RedisReader::Next::kMore:
        break;
    }
    const IoResult read = co_await stream_->Read({in_.data(), in_.size()});
    if (!read) {
      co_return Unavailable(read.error == asio::error::eof ? "the server closed the connection"
                                                           : read.error.message());
    }
    reader_->Feed({in_.data(), read.bytes});
  }
}

// The last step resumes the task that waits for the end.
void RedisClient::Resolve(Reply reply) {
  const Pending first = pending_.front();
  pending_.pop_front();
  pending_bytes_ -= first.bytes;
  if (pending_.empty()) {
    command_alarm_.Clear();
  } else {
    command_alarm_.Set(pending_.front().deadline);
  }
  Batch& batch = *first.batch;
  batch.replies[first.index] = std::move(reply);
  if (--batch.waiting == 0) batch.done.Set();
}

void RedisClient::FailPending(const absl::Status& why) {
  command_alarm_.Clear();
  unsent_.clear();
  pending_bytes_ = 0;
  const conf::TimePoint now = Now();
  // Resumed tasks may queue new commands.
  std::deque<Pending> failed;
  failed.swap(pending_);
  for (const Pending& one : failed) {
    const bool late = one.deadline <= now;
    state_.timeouts += late ? 1 : 0;
    one.batch->replies[one.index] = late ? absl::DeadlineExceededError(why.message()) : why;
    if (--one.batch->waiting == 0) one.batch->done.Set();
  }
}

void RedisClient::OnCommandAlarm() {
  if (state_.connected) {
    command_late_ = true;
    stream_->Close();
    return;
  }
  // Still connecting: none of the pending commands has been sent.
  const conf::TimePoint now = Now();
  while (!pending_.empty() && pending_.front().deadline <= now) {
    unsent_.erase(0, pending_.front().bytes);
    ++state_.timeouts;
    Resolve(absl::DeadlineExceededError(
        fmt::format("redis {}: not connected within {}", address(), conf::InWords(options_.timeout))));
  }
}

}  // namespace gateway::net
