#include "plugins/sinks/syslog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/net/watchdog.h"

namespace plugins::sinks {
namespace {

using gateway::net::Task;

// How soon a wait for room sees that it is to end.
constexpr conf::Duration kLookAgain = std::chrono::milliseconds(50);

// Field values of the header: printable ASCII without spaces, bounded (RFC 5424, 6).
std::string HeaderField(std::string_view text, size_t max) {
  std::string field;
  for (const char c : text.substr(0, max)) field += c > 32 && c < 127 ? c : '_';
  return field.empty() ? "-" : field;
}

// At most `max` bytes, whole UTF-8 characters.
std::string_view Cut(std::string_view text, size_t max) {
  if (text.size() <= max) return text;
  while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xc0) == 0x80) --max;
  return text.substr(0, max);
}

// Ends a batch that takes too long.
class BatchDeadline final : public gateway::net::Alarm {
 public:
  BatchDeadline(gateway::net::Watchdog& watchdog, std::function<void()> disconnect)
      : Alarm(watchdog), disconnect_(std::move(disconnect)) {}
  bool passed() const { return passed_; }

 private:
  void OnAlarm() override {
    passed_ = true;
    disconnect_();
  }
  const std::function<void()> disconnect_;
  bool passed_ = false;
};

}  // namespace

std::string FormatSyslog(const SyslogFormat& format, const Record& record) {
  std::string message =
      fmt::format("<{}>1 {} {} {} {} audit [tidegate@32473 seq=\"{}\"", format.facility * 8 + format.severity,
                  conf::FormatTime(record.at), HeaderField(format.hostname, 255),
                  HeaderField(format.app_name, 48), getpid(), record.seq);
  constexpr std::string_view kWhole = "] ";
  constexpr std::string_view kCut = " cut=\"true\"] ";
  if (message.size() + kWhole.size() + record.line.size() <= format.max_bytes) {
    return message.append(kWhole).append(record.line);
  }
  message.append(kCut);
  const size_t room = format.max_bytes > message.size() ? format.max_bytes - message.size() : 0;
  return message.append(Cut(record.line, room));
}

std::string SyslogSink::Describe() const {
  switch (options_.transport) {
    case Transport::kUnix:
      return "syslog " + options_.path;
    case Transport::kUdp:
      return fmt::format("syslog udp {}:{}", options_.host, options_.port);
    case Transport::kTcp:
      break;
  }
  return fmt::format("syslog {} {}:{}", options_.tls ? "tls" : "tcp", options_.host, options_.port);
}

void SyslogSink::Close() {
  closed_ = true;
  Disconnect();
}

void SyslogSink::Disconnect() {
  if (connecting_) connecting_->Abort();
  if (connection_) connection_->stream->Close();
}

Task<absl::Status> SyslogSink::Deliver(std::span<const Record> batch, conf::TimePoint until) {
  if (options_.transport == Transport::kTcp) return SendStream(batch, until);
  return SendDatagrams(batch, until);
}

Task<absl::Status> SyslogSink::SendDatagrams(std::span<const Record> batch, conf::TimePoint until) {
  if (!datagram_) {
    auto socket = co_await gateway::net::OffLoop(loop_, [this] {
      return options_.transport == Transport::kUnix
                 ? gateway::net::Datagram::ToUnix(options_.path)
                 : gateway::net::Datagram::ToUdp(options_.host, options_.port);
    });
    if (!socket.ok()) co_return socket.status();
    datagram_.emplace(*std::move(socket));
  }
  for (const Record& record : batch) {
    const absl::Status sent = co_await SendWhenThereIsRoom(FormatSyslog(options_.format, record), until);
    if (!sent.ok()) {
      datagram_.reset();
      co_return sent;
    }
  }
  co_return absl::OkStatus();
}

// A Unix socket's queue holds a few messages, far fewer than a batch has.
Task<absl::Status> SyslogSink::SendWhenThereIsRoom(const std::string& message, conf::TimePoint until) {
  const conf::TimePoint start = gateway::net::Now();
  until = std::min(until, start + options_.timeout);
  while (true) {
    absl::Status sent = datagram_->Send(message);
    if (!absl::IsResourceExhausted(sent)) co_return sent;
    if (closed_ || gateway::net::Now() >= until) {
      co_return absl::DeadlineExceededError(fmt::format(
          "{} and accepted nothing for {}", conf::Std(sent.message()), conf::InWords(until - start)));
    }
    co_await gateway::net::OffLoop(loop_, [this] {
      datagram_->WaitForRoom(kLookAgain);
      return true;
    });
  }
}

// Reads and drops, so that the peer's closing is seen.
Task<void> SyslogSink::WatchPeer(std::shared_ptr<Connection> connection) {
  std::array<char, 512> ignored;
  while (co_await connection->stream->Read({ignored.data(), ignored.size()})) {
  }
  connection->broken = true;
}

Task<absl::Status> SyslogSink::Connect(gateway::net::Connector& connector) {
  gateway::net::Remote remote;
  remote.host = options_.host;
  remote.port = options_.port;
  remote.tls = options_.tls;
  connecting_ = &connector;
  gateway::net::ConnectResult connected = co_await connector.Connect(remote);
  connecting_ = nullptr;
  if (connected.error) {
    co_return absl::UnavailableError(fmt::format("{}: {}", Describe(), connected.error.message()));
  }
  connection_ = std::make_shared<Connection>();
  connection_->stream = std::move(connected.stream);
  loop_.tasks.Spawn(WatchPeer(connection_));
  co_return absl::OkStatus();
}

Task<absl::Status> SyslogSink::SendStream(std::span<const Record> batch, conf::TimePoint until) {
  const conf::TimePoint start = gateway::net::Now();
  until = std::min(until, start + options_.timeout);
  BatchDeadline deadline(loop_.watchdog, [this] { Disconnect(); });
  deadline.Set(until);
  if (connection_ && connection_->broken) connection_.reset();
  absl::Status status;
  if (!connection_) {
    gateway::net::Connector connector(loop_.io);
    status = co_await Connect(connector);
  }
  if (status.ok()) {
    std::string bytes;
    for (const Record& record : batch) {
      const std::string message = FormatSyslog(options_.format, record);
      fmt::format_to(std::back_inserter(bytes), "{} {}", message.size(), message);
    }
    const gateway::net::IoResult written = co_await connection_->stream->Write(gateway::net::AsBuffer(bytes));
    if (!written || connection_->broken) {
      status = absl::UnavailableError(fmt::format(
          "{}: {}", Describe(), written ? "the peer closed the connection" : written.error.message()));
    }
  }
  if (!status.ok()) {
    Disconnect();
    connection_.reset();
  }
  if (deadline.passed()) {
    co_return absl::DeadlineExceededError(
        fmt::format("{}: a batch was not accepted within {}", Describe(), conf::InWords(until - start)));
  }
  co_return status;
}

}  // namespace plugins::sinks
