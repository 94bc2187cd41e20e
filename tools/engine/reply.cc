#include "tools/engine/reply.h"

namespace tidegate_engine {
namespace {

const gateway::net::http::Headers kJsonAnswer{{"content-type", "application/json"}};

}  // namespace

Task<bool> Reply(Exchange& exchange, std::string body) {
  co_return co_await exchange.Send(200, kJsonAnswer, body);
}

Task<bool> Fail(Exchange& exchange, Stats& stats, Api api, ApiError error) {
  if (IsModelApi(api)) stats.Refused();
  co_return co_await exchange.Send(error.status, kJsonAnswer, ErrorBody(api, error));
}

Task<void> AwaitLeaving(Exchange& exchange, Stats& stats) {
  gateway::net::Event left;
  exchange.OnGone([&left] { left.Set(); });
  co_await left.Wait();
  stats.LeftHanging();
  exchange.CloseAfter();
}

}  // namespace tidegate_engine
