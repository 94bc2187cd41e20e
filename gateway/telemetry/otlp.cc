#include "gateway/telemetry/otlp.h"

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/telemetry/otlp_post.h"

namespace gateway::telemetry {

OtlpExporter::OtlpExporter(net::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      backoff_(options_.min_backoff, options_.max_backoff, options_.seed),
      pause_(loop.watchdog),
      self_(std::make_shared<OtlpExporter*>(this)) {
  loop_.tasks.Spawn(Run());
}

bool OtlpExporter::Enqueue(Span span) {
  const size_t bytes = span.bytes();
  {
    const std::scoped_lock lock(mutex_);
    if (status_.queued_bytes + bytes > options_.max_queued_bytes) {
      ++status_.dropped_queue;
      return false;
    }
    status_.queued_bytes += bytes;
    queue_.emplace_back(std::move(span), bytes);
    if (woken_ || queue_.size() < options_.batch_spans) return true;
    woken_ = true;
  }
  loop_.Post([self = std::weak_ptr<OtlpExporter*>(self_)] {
    if (const auto exporter = self.lock()) (*exporter)->WakeUp();
  });
  return true;
}

void OtlpExporter::WakeUp() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = false;
  }
  if (waiting_) pause_.Cancel();
}

OtlpExporter::Status OtlpExporter::status() const {
  const std::scoped_lock lock(mutex_);
  Status status = status_;
  status.queued = queue_.size();
  return status;
}

void OtlpExporter::Close() {
  if (std::exchange(closed_, true)) return;
  until_ = net::Now() + options_.timeout;
  pause_.Cancel();
}

net::Task<void> OtlpExporter::Stop() {
  Close();
  co_await ended_.Wait();
}

// The last step must not touch this object: the task that waits for the end may destroy it.
net::Task<void> OtlpExporter::Run() {
  co_await Keep();
  ended_.Set();
}

net::Task<void> OtlpExporter::Keep() {
  while (!closed_) {
    waiting_ = true;
    if (status().queued < options_.batch_spans) co_await pause_.For(options_.batch_interval);
    waiting_ = false;
    std::vector<Span> batch = TakeBatch();
    if (!batch.empty()) co_await SendBatch(std::move(batch));
  }
  while (reached_ && net::Now() < until_) {
    std::vector<Span> batch = TakeBatch();
    if (batch.empty()) break;
    co_await SendBatch(std::move(batch));
  }
}

std::vector<Span> OtlpExporter::TakeBatch() {
  std::vector<Span> batch;
  const std::scoped_lock lock(mutex_);
  while (!queue_.empty() && batch.size() < options_.batch_spans) {
    status_.queued_bytes -= queue_.front().second;
    batch.push_back(std::move(queue_.front().first));
    queue_.pop_front();
  }
  return batch;
}

net::Task<void> OtlpExporter::SendBatch(std::vector<Span> batch) {
  const std::string body = RenderOtlp(batch, options_.service_name, options_.service_instance);
  for (uint32_t n = 1;; ++n) {
    const absl::Status posted = co_await Post(body);
    reached_ = posted.ok();
    if (posted.ok()) {
      backoff_.Reset();
      const std::scoped_lock lock(mutex_);
      status_.sent += batch.size();
      co_return;
    }
    const bool last = closed_ || n >= options_.tries || posted.code() == absl::StatusCode::kInvalidArgument;
    {
      const std::scoped_lock lock(mutex_);
      ++status_.failures;
      status_.last_error = conf::Std(posted.message());
      status_.last_error_at = net::Now();
      if (last) status_.dropped_sent += batch.size();
    }
    if (last) co_return;
    co_await pause_.For(backoff_.Next());
  }
}

net::Task<absl::Status> OtlpExporter::Post(std::string body) {
  return PostOtlp(loop_, {options_.endpoint, options_.headers, options_.tls, options_.server_name},
                  std::move(body), std::min(options_.timeout, until_ - net::Now()));
}

}  // namespace gateway::telemetry
