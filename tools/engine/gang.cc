#include "tools/engine/gang.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "gateway/net/backoff.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"

namespace tidegate_engine {
namespace {

using gateway::net::AsBuffer;
using gateway::net::ConstBuffer;
using gateway::net::Now;
using gateway::net::Stream;
using gateway::net::Task;

constexpr std::string_view kGreeting = "tidegate-engine worker\n";  // of a worker, at first
constexpr std::string_view kBeat = ".";                             // of both, from then on
constexpr conf::Duration kShortestPause = std::chrono::milliseconds(50);
constexpr conf::Duration kLongestPause = std::chrono::seconds(1);
constexpr conf::Duration kConnectTimeout = std::chrono::seconds(2);

// Keeps a connection alive, and closes it when the other side is not heard. Silence is counted in pulses, not by the clock:
// a process that itself stood still meanwhile has not listened.
class Pulse final : public gateway::net::Alarm {
 public:
  Pulse(gateway::net::Loop& loop, Stream& stream, const GangOptions& options)
      : Alarm(loop.watchdog), stream_(stream), options_(options) {
    SetAfter(options_.pulse);
  }
  void OnBeat() { silent_ = 0; }
  // Now, and from now on.
  void Beat() {
    beats_ = true;
    const ConstBuffer beat = AsBuffer(kBeat);
    stream_.TryWrite({&beat, 1});  // a failed write means that the peer is gone
  }

 private:
  void OnAlarm() override {
    if (++silent_ * options_.pulse > options_.patience) return stream_.Close();
    if (beats_) Beat();
    SetAfter(options_.pulse);
  }

  Stream& stream_;
  const GangOptions& options_;
  int silent_ = 0;  // pulses
  bool beats_ = false;
};

// Whether the other side begins as a worker does.
Task<bool> IsWorker(Stream& stream, Pulse& pulse) {
  std::string heard;
  while (heard.size() < kGreeting.size()) {
    std::array<char, kGreeting.size()> bytes;
    const auto read =
        co_await stream.Read(gateway::net::MutableBuffer(bytes.data(), kGreeting.size() - heard.size()));
    if (!read) co_return false;
    heard.append(bytes.data(), read.bytes);
    if (!kGreeting.starts_with(heard)) co_return false;
  }
  pulse.OnBeat();
  co_return true;
}

// Until the connection has ended.
Task<void> Listen(Stream& stream, Pulse& pulse) {
  std::array<char, 64> bytes;
  while (co_await stream.Read(gateway::net::MutableBuffer(bytes.data(), bytes.size()))) pulse.OnBeat();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GangLeader>> GangLeader::Listen(gateway::net::Loop& loop,
                                                               const std::string& address,
                                                               GangOptions options, OnLost on_lost) {
  std::unique_ptr<GangLeader> leader(new GangLeader(loop, std::move(options), std::move(on_lost)));
  gateway::net::Acceptor::Options at;
  at.address = fmt::format("{}:{}", address, leader->options_.workers_at);
  auto acceptor = gateway::net::Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, std::move(at),
                                                 [self = leader.get()](std::unique_ptr<Stream> stream) {
                                                   self->loop_.tasks.Spawn(self->Keep(std::move(stream)));
                                                 });
  if (!acceptor.ok()) return acceptor.status();
  leader->acceptor_ = *std::move(acceptor);
  return leader;
}

void GangLeader::Close() {
  closing_ = true;
  acceptor_->Close();
  for (Stream* const stream : streams_) stream->Close();
}

Task<void> GangLeader::Keep(std::unique_ptr<Stream> stream) {
  streams_.push_back(stream.get());
  {
    Pulse pulse(loop_, *stream, options_);
    if (co_await IsWorker(*stream, pulse) && joined_ < options_.workers && !lost_) {
      ++joined_;
      pulse.Beat();
      co_await tidegate_engine::Listen(*stream, pulse);
      if (!std::exchange(lost_, true) && !closing_)
        on_lost_(fmt::format("a worker at {} is gone", stream->PeerAddress()));
    }
  }
  std::erase(streams_, stream.get());
  stream->Close();
}

Task<std::string> GangWorker::Run() {
  const conf::TimePoint until = Now() + options_.join_within;
  gateway::net::Backoff backoff(kShortestPause, kLongestPause, 1);
  const std::string leader = fmt::format("{}:{}", options_.leader_host, options_.leader_port);
  while (!co_await Join()) {
    if (closing_) co_return "";
    if (Now() >= until) co_return fmt::format("the leader at {} accepts no worker", leader);
    co_await pause_.For(backoff.Next());
  }
  co_return closing_ ? "" : fmt::format("the leader at {} is gone", leader);
}

Task<bool> GangWorker::Join() {
  gateway::net::AbortGroup::Member member(&connecting_);
  gateway::net::Connector connector(loop_.io);
  gateway::net::ConnectDeadline deadline(loop_.watchdog, connector);
  deadline.SetAfter(kConnectTimeout);
  if (!member.Begin(connector)) co_return false;
  const gateway::net::Remote remote{options_.leader_host, options_.leader_port, nullptr, ""};
  gateway::net::ConnectResult connected = co_await connector.Connect(remote);
  deadline.Clear();
  if (connected.error || closing_) co_return false;
  stream_ = connected.stream.get();
  {
    Pulse pulse(loop_, *stream_, options_);
    co_await stream_->Write(AsBuffer(kGreeting));
    pulse.Beat();
    char first = 0;
    if (co_await stream_->Read(gateway::net::MutableBuffer(&first, 1))) {
      joined_ = true;
      pulse.OnBeat();
      co_await Listen(*stream_, pulse);
    }
  }
  std::exchange(stream_, nullptr)->Close();
  co_return joined_;
}

void GangWorker::Close() {
  closing_ = true;
  connecting_.Abort();
  pause_.Cancel();
  if (stream_ != nullptr) stream_->Close();
}

}  // namespace tidegate_engine
