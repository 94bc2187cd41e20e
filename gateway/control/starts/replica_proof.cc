#include "gateway/control/starts/replica_proof.h"

#include <fmt/format.h>

#include <utility>

#include "conf/text.h"
#include "gateway/net/http/fetch.h"
#include "plugins/engines/engine_key.h"

namespace gateway::control {
namespace {

// Advice to the engine's author.
std::string HowToHandOver(const plugins::engines::EngineKey& how) {
  if (!how.variable.empty()) return fmt::format("{} has it in {}", how.engine, how.variable);
  return fmt::format("pass {} in its command, as docs/models.md shows",
                     plugins::engines::kReplicaKeyVariable);
}

}  // namespace

net::Task<absl::StatusOr<int>> AskLaunched(net::Loop& loop, const config::Endpoint& endpoint,
                                           Question question, const conf::Secret* key,
                                           std::shared_ptr<const net::TlsContext> tls,
                                           net::AbortGroup* group) {
  net::http::FetchRequest request;
  request.url = {endpoint.url.tls(), endpoint.url.host, std::to_string(endpoint.url.port),
                 std::string(question.path), std::string(question.query)};
  if (!question.body.empty()) {
    request.method = "POST";
    request.headers.emplace_back("content-type", "application/json");
    request.body = question.body;
  }
  if (key != nullptr) request.headers.emplace_back("authorization", fmt::format("Bearer {}", key->Reveal()));
  request.timeout = question.timeout;
  request.tls = std::move(tls);
  request.server_name = endpoint.tls.server_name;
  const absl::StatusOr<net::http::FetchResponse> answer =
      co_await net::http::Fetch(loop, std::move(request), group);
  if (!answer.ok()) co_return answer.status();
  co_return answer->status;
}

absl::StatusOr<std::shared_ptr<const net::TlsContext>> TlsFor(const config::Endpoint& endpoint) {
  if (!endpoint.url.tls()) return nullptr;
  const config::ClientTls& files = endpoint.tls;
  return net::TlsContext::Client({files.ca, files.certificate, files.key, !files.insecure_skip_verify});
}

net::Task<Proof> ProveReplica(net::Loop& loop, std::shared_ptr<const config::Endpoint> endpoint,
                              ReplicaKeys::Trial trial, std::shared_ptr<const net::TlsContext> tls,
                              net::AbortGroup* group) {
  const plugins::engines::EngineKey* const how = plugins::engines::FindEngineKey(Name(endpoint->engine));
  if (how == nullptr) co_return Proof{Proof::Is::kNever, "its engine cannot demand a key"};
  for (size_t i = 0; i <= trial.keys.size(); ++i) {
    const conf::Secret* const key = i == 0 ? nullptr : &trial.keys[i - 1];
    const bool own = i == trial.right + 1;
    const absl::StatusOr<int> status =
        co_await AskLaunched(loop, *endpoint, {.path = how->path, .body = how->body}, key, tls, group);
    if (!status.ok()) co_return Proof{Proof::Is::kNotYet, std::string(conf::Std(status.status().message()))};
    const bool refused = RefusesCaller(*status);
    if (!refused && *status >= 300)
      co_return Proof{Proof::Is::kNotYet, fmt::format("{} answers {}", how->path, *status)};
    if (own && refused) {
      co_return Proof{
          Proof::Is::kNever,
          fmt::format(
              "the process that listens at {} refuses the replica's key: it is another process, or its "
              "command sets a key of its own ({})",
              endpoint->url.authority(), HowToHandOver(*how))};
    }
    if (!own && !refused) {
      co_return Proof{
          Proof::Is::kNever,
          fmt::format(
              "the process that listens at {} answers {} {}: it is another process, or the engine was not "
              "given the key ({}; with api_key: none, none is demanded)",
              endpoint->url.authority(), how->path, key == nullptr ? "without a key" : "with a wrong key",
              HowToHandOver(*how))};
    }
  }
  co_return Proof{Proof::Is::kGiven, {}};
}

}  // namespace gateway::control
