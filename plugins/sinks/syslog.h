// SyslogSink: one RFC 5424 message a record, over a Unix datagram socket (/dev/log), UDP (RFC 5426) or TCP
// with octet counting (RFC 6587; RFC 5425 with TLS).
//
// Syslog has no acknowledgement: delivered means that the kernel took the message and, over TCP, that the
// peer had not closed the connection by then. What was on the way when a TCP peer died can be lost; where
// that matters, use the webhook. A message longer than the transport may carry is cut at a character and says
// so in its structured data.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "conf/time.h"
#include "gateway/net/datagram.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "gateway/net/transport.h"
#include "plugins/sinks/sink.h"

namespace plugins::sinks {

struct SyslogFormat {
  uint32_t facility = 16;  // local0
  uint32_t severity = 6;   // informational
  std::string hostname;    // `-` when empty
  std::string app_name = "tidegate";
  size_t max_bytes = 8192;  // of a message
};

// <134>1 2026-11-20T08:30:00.000000Z host tidegate PID audit [tidegate@32473 seq="7"] LINE. RFC 5612 reserves the
// enterprise number 32473 for documentation; Tidegate has none of its own.
std::string FormatSyslog(const SyslogFormat& format, const Record& record);

class SyslogSink final : public Sink {
 public:
  enum class Transport : uint8_t { kUnix, kUdp, kTcp };

  struct Options {
    Transport transport = Transport::kUnix;
    std::string path = "/dev/log";  // kUnix
    std::string host;               // the others
    std::string port = "514";
    std::shared_ptr<const gateway::net::TlsContext> tls;  // kTcp; absent: plain
    SyslogFormat format;
    // For a batch over TCP, connecting included; for the wait for room in the queue of a Unix socket.
    conf::Duration timeout = std::chrono::seconds(10);
  };

  SyslogSink(gateway::net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  ~SyslogSink() override { Close(); }

  std::string Describe() const override;
  BatchLimits limits() const override { return {500, 1u << 20}; }
  gateway::net::Task<absl::Status> Deliver(std::span<const Record> batch, conf::TimePoint until) override;
  void Close() override;

 private:
  // Outlives the sink until its read has ended.
  struct Connection {
    std::unique_ptr<gateway::net::Stream> stream;
    bool broken = false;
  };

  gateway::net::Task<absl::Status> SendDatagrams(std::span<const Record> batch, conf::TimePoint until);
  gateway::net::Task<absl::Status> SendWhenThereIsRoom(const std::string& message, conf::TimePoint until);
  gateway::net::Task<absl::Status> SendStream(std::span<const Record> batch, conf::TimePoint until);
  gateway::net::Task<absl::Status> Connect(gateway::net::Connector& connector);
  void Disconnect();
  static gateway::net::Task<void> WatchPeer(std::shared_ptr<Connection> connection);

  gateway::net::Loop& loop_;
  const Options options_;
  std::optional<gateway::net::Datagram> datagram_;
  std::shared_ptr<Connection> connection_;
  gateway::net::Connector* connecting_ = nullptr;
  bool closed_ = false;
};

}  // namespace plugins::sinks
