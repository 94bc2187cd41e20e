#include "gateway/control/starts/first_token.h"

#include <fmt/format.h>

#include <utility>

#include "conf/json_text.h"
#include "conf/text.h"
#include "gateway/control/starts/replica_proof.h"

namespace gateway::control {

net::Task<absl::Status> AskForFirstToken(net::Loop& loop, const Context& context, std::string run,
                                         std::shared_ptr<const config::Endpoint> endpoint,
                                         std::shared_ptr<const conf::Secret> key, conf::Duration timeout,
                                         net::AbortGroup* group) {
  const absl::StatusOr<std::shared_ptr<const net::TlsContext>> tls = TlsFor(*endpoint);
  if (!tls.ok()) co_return tls.status();
  const absl::Status port = co_await context.launcher->CheckPort(std::move(run));
  if (absl::IsFailedPrecondition(port)) co_return port;
  const std::string name = conf::Quoted(endpoint->model);
  const std::string completion =
      fmt::format(R"({{"model":{},"prompt":"a","max_tokens":1,"temperature":0}})", name);
  const std::string embedding = fmt::format(R"({{"model":{},"input":"a"}})", name);
  const Question generates{.path = "/v1/completions", .body = completion, .timeout = timeout};
  const Question embeds{.path = "/v1/embeddings", .body = embedding, .timeout = timeout};
  const absl::StatusOr<int> first = co_await AskLaunched(loop, *endpoint, generates, key.get(), *tls, group);
  if (first.ok() && *first < 300) co_return absl::OkStatus();
  const absl::StatusOr<int> second = co_await AskLaunched(loop, *endpoint, embeds, key.get(), *tls, group);
  if (second.ok() && *second < 300) co_return absl::OkStatus();
  if (!first.ok()) co_return first.status();
  co_return absl::FailedPreconditionError(
      conf::Abseil(fmt::format("{} answers {} to a question for one token", generates.path, *first)));
}

}  // namespace gateway::control
