#include "tools/engine/sleep.h"

#include <fmt/format.h>

#include <string>

namespace tidegate_engine {
namespace {

std::string_view QueryOf(std::string_view target) {
  const size_t at = target.find('?');
  return at == std::string_view::npos ? std::string_view() : target.substr(at + 1);
}

}  // namespace

Task<bool> Sleep::Serve(Exchange& exchange, Api api) {
  switch (api) {
    case Api::kSleep:
      co_return co_await FallAsleep(exchange);
    case Api::kWakeUp:
      co_return co_await WakeUp(exchange);
    case Api::kCollectiveRpc:
      co_return co_await ReloadWeights(exchange);
    default:
      co_return co_await Reply(exchange, fmt::format(R"({{"is_sleeping":{}}})", !awake()));
  }
}

Task<void> Sleep::Pass(conf::Duration time) {
  gateway::net::Sleep pause(loop_.watchdog);
  if (time > conf::Duration::zero()) co_await pause.For(time);
}

Task<bool> Sleep::Refuse(Exchange& exchange, Api api, std::string_view why) {
  co_return co_await Fail(exchange, stats_, api,
                          {.status = 400, .type = {}, .message = std::string(why), .param = {}});
}

Task<bool> Sleep::FallAsleep(Exchange& exchange) {
  const scheduler::engine::Profile& profile = engine_.model().profile();
  const std::string_view query = QueryOf(exchange.head().target);
  if (query != "level=2" && query != "level=1" && !query.empty())
    co_return co_await Refuse(exchange, Api::kSleep, "level must be 1 or 2");
  if (!awake()) co_return co_await Reply(exchange, "{}");
  if (engine_.model().running() + engine_.model().waiting() > 0)
    co_return co_await Refuse(exchange, Api::kSleep, "Requests are running.");
  state_ = query == "level=2" ? State::kDeep : State::kLight;
  engine_.DropPrefixes();
  // Discarding is quick; moving the weights takes their size over the bus.
  if (state_ == State::kLight) co_await Pass(profile.move_time);
  co_return co_await Reply(exchange, "{}");
}

Task<bool> Sleep::WakeUp(Exchange& exchange) {
  const scheduler::engine::Profile& profile = engine_.model().profile();
  const std::string_view query = QueryOf(exchange.head().target);
  if (query == "tags=weights" && state_ == State::kDeep) {
    state_ = State::kWithoutWeights;
  } else if (query == "tags=kv_cache" && state_ == State::kWithoutCache) {
    state_ = State::kAwake;
  } else if (query.empty() && state_ == State::kLight) {
    co_await Pass(profile.move_time);
    state_ = State::kAwake;
  } else if (!awake()) {
    co_return co_await Refuse(exchange, Api::kWakeUp,
                              "The weights were discarded: wake them, reload them, then wake the cache.");
  }
  co_return co_await Reply(exchange, "{}");
}

Task<bool> Sleep::ReloadWeights(Exchange& exchange) {
  if (exchange.body().find("reload_weights") == std::string_view::npos)
    co_return co_await Refuse(exchange, Api::kCollectiveRpc, "The method is not known.");
  if (state_ == State::kDeep) co_return co_await Refuse(exchange, Api::kCollectiveRpc, "The engine sleeps.");
  if (state_ == State::kWithoutWeights) {
    co_await Pass(engine_.model().profile().reload_time);
    state_ = State::kWithoutCache;
  }
  co_return co_await Reply(exchange, R"({"results":[null]})");
}

}  // namespace tidegate_engine
