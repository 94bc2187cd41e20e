#include "gateway/telemetry/otlp_post.h"

#include <fmt/format.h>

#include "gateway/net/http/fetch.h"

namespace gateway::telemetry {
namespace {

bool IsTransient(int status) {
  return status == 408 || status == 429 || status >= 500;
}

}  // namespace

net::Task<absl::Status> PostOtlp(net::Loop& loop, OtlpTarget target, std::string body,
                                 conf::Duration timeout) {
  net::http::FetchRequest request;
  request.method = "POST";
  request.url = target.endpoint;
  request.headers = std::move(target.headers);
  request.headers.emplace_back("content-type", "application/json");
  request.body = std::move(body);
  request.timeout = timeout;
  request.max_response_bytes = 64 << 10;
  request.tls = std::move(target.tls);
  request.server_name = std::move(target.server_name);
  const auto response = co_await net::http::Fetch(loop, std::move(request));
  if (!response.ok()) co_return response.status();
  if (response->status >= 200 && response->status < 300) co_return absl::OkStatus();
  const std::string message =
      fmt::format("{}{} answered {}", target.endpoint.Authority(), target.endpoint.path, response->status);
  co_return IsTransient(response->status) ? absl::UnavailableError(message)
                                          : absl::InvalidArgumentError(message);
}

}  // namespace gateway::telemetry
