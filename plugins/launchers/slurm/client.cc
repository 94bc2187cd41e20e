#include "plugins/launchers/slurm/client.h"

#include <fmt/format.h>

#include "conf/secret.h"
#include "conf/text.h"
#include "gateway/net/off_loop.h"

namespace plugins::launchers::slurm {
namespace {

using gateway::net::Task;
using gateway::net::http::FetchRequest;
using gateway::net::http::FetchResponse;

constexpr std::string_view kPrefix = "/slurm/v0.0.38";
constexpr int kNotModified = 304;
constexpr int kUnauthorized = 401;
constexpr size_t kMaxToken = 16 << 10;

// An answer that is not the expected one: Slurm's error, or no answer of Slurm at all.
absl::Status Refusal(const FetchResponse& response) {
  absl::Status reported = ErrorOf(response.body);
  if (!reported.ok() && !absl::IsDataLoss(reported)) return reported;
  if (response.status == kUnauthorized)
    return absl::UnavailableError("slurmrestd refuses the configured user and token");
  return absl::UnavailableError(fmt::format("slurmrestd answered {} without a reason", response.status));
}

}  // namespace

Client::~Client() {
  conf::Wipe(token_);
}

Task<absl::Status> Client::ReadToken() {
  absl::StatusOr<std::string> token =
      co_await gateway::net::OffLoop(loop_, [this] { return options_.token(); });
  if (!token.ok()) {
    co_return absl::UnavailableError(fmt::format("Slurm's token: {}", conf::Std(token.status().message())));
  }
  const bool sendable =
      !token->empty() && token->size() <= kMaxToken && token->find_first_of("\r\n\t ") == std::string::npos;
  if (sendable) {
    conf::Wipe(token_);
    token_ = *token;
    token_is_stale_ = false;
  }
  conf::Wipe(*token);
  co_return sendable ? absl::OkStatus() : absl::UnavailableError("Slurm's token: is not one word");
}

Task<Client::Answer> Client::Ask(std::string method, std::string path, std::string query, std::string body) {
  if (options_.token && token_is_stale_) {
    if (absl::Status read = co_await ReadToken(); !read.ok()) co_return read;
  }
  FetchRequest request;
  request.method = std::move(method);
  request.url = options_.url;
  request.url.path += fmt::format("{}{}", kPrefix, path);
  request.url.query = std::move(query);
  request.socket = options_.socket;
  request.body = std::move(body);
  request.timeout = options_.timeout;
  request.max_response_bytes = options_.max_answer;
  request.tls = options_.tls;
  request.server_name = options_.server_name;
  request.headers.emplace_back("accept", "application/json");
  if (!request.body.empty()) request.headers.emplace_back("content-type", "application/json");
  if (options_.token) {
    request.headers.emplace_back("x-slurm-user-name", options_.user);
    request.headers.emplace_back("x-slurm-user-token", token_);
  }
  Answer answer = co_await gateway::net::http::Fetch(loop_, std::move(request), &requests_);
  if (!answer.ok()) {
    if (absl::IsCancelled(answer.status())) co_return answer.status();
    co_return absl::UnavailableError(fmt::format("slurmrestd: {}", conf::Std(answer.status().message())));
  }
  if (answer->status >= 400) {
    token_is_stale_ = true;
    co_return Refusal(*answer);
  }
  co_return answer;
}

Task<absl::StatusOr<std::optional<JobList>>> Client::Jobs(int64_t since) {
  const Answer answer =
      co_await Ask("GET", "/jobs", since > 0 ? fmt::format("update_time={}", since) : std::string(), {});
  if (!answer.ok()) co_return answer.status();
  if (answer->status == kNotModified) co_return std::optional<JobList>();
  absl::StatusOr<JobList> list = ReadJobs(answer->body);
  if (!list.ok()) co_return list.status();
  co_return std::optional<JobList>(*std::move(list));
}

Task<absl::StatusOr<std::vector<Node>>> Client::Nodes() {
  const Answer answer = co_await Ask("GET", "/nodes", {}, {});
  if (!answer.ok()) co_return answer.status();
  co_return ReadNodes(answer->body);
}

Task<absl::StatusOr<uint32_t>> Client::Submit(std::string body) {
  const Answer answer = co_await Ask("POST", "/job/submit", {}, std::move(body));
  if (!answer.ok()) co_return answer.status();
  co_return ReadSubmitted(answer->body);
}

Task<absl::Status> Client::Signal(uint32_t job, int signal) {
  const Answer answer =
      co_await Ask("DELETE", fmt::format("/job/{}", job), fmt::format("signal={}", signal), {});
  if (!answer.ok()) co_return answer.status();
  co_return ErrorOf(answer->body);
}

}  // namespace plugins::launchers::slurm
