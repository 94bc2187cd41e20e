// OtlpExporter: sends spans to an OpenTelemetry collector, OTLP/HTTP JSON, off the request path.
//
// Any shard's thread gives spans to Enqueue(), which costs a short lock and never waits; the loop sends them
// in batches, by size and by time. The queue is bounded in bytes: a span that does not fit is dropped and
// counted. A batch that the collector cannot take now (unreachable, 408, 429, 5xx) is tried again with
// back-off a few times; one that it refuses (other 4xx) is dropped and counted.
//
// Owner: the shell; destroyed after Stop() has returned, or after the loop's tasks have ended, and when no
// other thread can call it any more. Thread: the loop's, except Enqueue() and status().
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/backoff.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "gateway/net/url.h"
#include "gateway/telemetry/span.h"

namespace gateway::telemetry {

class OtlpExporter {
 public:
  struct Options {
    net::Url endpoint;  // of the collector; its path is used as it stands: .../v1/traces
    std::vector<std::pair<std::string, std::string>> headers;  // may hold secrets
    std::shared_ptr<const net::TlsContext> tls;
    std::string server_name;  // to verify; the endpoint's host when empty
    std::string service_name = "tidegate";
    std::string service_instance;
    size_t batch_spans = 512;
    conf::Duration batch_interval = std::chrono::seconds(2);
    size_t max_queued_bytes = 8u << 20;
    conf::Duration timeout = std::chrono::seconds(5);  // of one POST
    uint32_t tries = 5;                                // of a batch
    conf::Duration min_backoff = std::chrono::milliseconds(500);
    conf::Duration max_backoff = std::chrono::seconds(30);
    uint64_t seed = 1;  // of the back-off's jitter
  };

  struct Status {
    uint64_t sent = 0;           // spans that the collector took
    uint64_t dropped_queue = 0;  // the queue was full
    uint64_t dropped_sent = 0;   // refused, or not accepted after all tries
    uint64_t failures = 0;       // POSTs that failed
    size_t queued = 0;
    size_t queued_bytes = 0;
    std::string last_error;
    conf::TimePoint last_error_at;
  };

  OtlpExporter(net::Loop& loop, Options options);
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // False when it was dropped.
  bool Enqueue(Span span);
  Status status() const;

  void Close();
  // Sends what is queued while the collector takes it, for `timeout` in all; the rest is lost. Once.
  net::Task<void> Stop();

 private:
  net::Task<void> Run();
  net::Task<void> Keep();
  net::Task<void> SendBatch(std::vector<Span> batch);
  net::Task<absl::Status> Post(std::string body);
  std::vector<Span> TakeBatch();
  void WakeUp();

  net::Loop& loop_;
  const Options options_;
  net::Backoff backoff_;
  bool closed_ = false;
  conf::TimePoint until_ = conf::TimePoint::max();  // what is sent from now on has come by then
  bool waiting_ = false;                            // for a batch to fill
  bool reached_ = true;                             // by the last POST
  net::Sleep pause_;
  net::Event ended_;
  const std::shared_ptr<OtlpExporter*> self_;  // what a wake-up that comes too late finds gone

  mutable std::mutex mutex_;
  std::deque<std::pair<Span, size_t>> queue_;  // guarded by mutex_, with bytes
  bool woken_ = false;                         // guarded by mutex_; a wake-up is on its way
  Status status_;                              // guarded by mutex_
};

}  // namespace gateway::telemetry
