#include "plugins/sinks/webhook.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "plugins/auth/hmac.h"

namespace plugins::sinks {

namespace {

// Enough to distinguish records of the same number in different ledgers.
constexpr size_t kLinkDigits = 16;

}  // namespace

// Without the query, where some services want their token.
std::string WebhookSink::Describe() const {
  return fmt::format("webhook {}://{}{}", options_.url.tls ? "https" : "http", options_.url.Authority(),
                     options_.url.path);
}

gateway::net::Task<absl::Status> WebhookSink::Deliver(std::span<const Record> batch, conf::TimePoint until) {
  if (batch.empty()) co_return absl::OkStatus();
  gateway::net::http::FetchRequest request;
  request.method = "POST";
  request.url = options_.url;
  request.timeout = std::min(options_.timeout, until - gateway::net::Now());
  request.tls = options_.tls;
  request.server_name = options_.server_name;
  request.max_response_bytes = 64 << 10;
  for (const Record& record : batch) request.body.append(record.line).push_back('\n');
  const std::string first = fmt::format("{}", batch.front().seq);
  const std::string last = fmt::format("{}", batch.back().seq);
  request.headers = options_.headers;
  const auto add = [&](const char* name, std::string value) {
    request.headers.emplace_back(name, std::move(value));
  };
  add("content-type", "application/x-ndjson");
  add("idempotency-key", fmt::format("{}-{}-{}-{}", options_.source, first, last,
                                     std::string_view(batch.back().link).substr(0, kLinkDigits)));
  add("x-tidegate-first-seq", first);
  add("x-tidegate-last-seq", last);
  if (!options_.bearer.empty()) add("authorization", "Bearer " + options_.bearer);
  if (!options_.signing_secret.empty()) {
    const std::string timestamp = fmt::format("{}", conf::ToUnixMicros(gateway::net::Now()) / 1'000'000);
    add("x-tidegate-timestamp", timestamp);
    add("x-tidegate-signature",
        "v1=" + auth::HmacSha256(options_.signing_secret, timestamp + "." + request.body));
  }
  const auto response = co_await gateway::net::http::Fetch(loop_, std::move(request), &posts_);
  if (!response.ok()) co_return response.status();
  if (response->status >= 200 && response->status < 300) co_return absl::OkStatus();
  const std::string message = fmt::format("{} answered {}", Describe(), response->status);
  co_return response->status == 413 ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

}  // namespace plugins::sinks
