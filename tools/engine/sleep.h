// The engine's sleep: vLLM's paths, and how long each step takes.
//
// Level 1 keeps the weights in host memory and level 2 discards them; both forget the prefix cache. Who asks an
// engine that sleeps for tokens gets 503. One thread.
#pragma once

#include <string_view>

#include "gateway/net/loop.h"
#include "tools/engine/engine.h"
#include "tools/engine/reply.h"
#include "tools/engine/stats.h"

namespace tidegate_engine {

class Sleep {
 public:
  // Without `enabled`, as without vLLM's --enable-sleep-mode, its paths do not exist.
  Sleep(gateway::net::Loop& loop, Engine& engine, Stats& stats, bool enabled)
      : loop_(loop), engine_(engine), stats_(stats), enabled_(enabled) {}

  bool enabled() const { return enabled_; }
  bool awake() const { return state_ == State::kAwake; }
  Task<bool> Serve(Exchange& exchange, Api api);

 private:
  enum class State : uint8_t { kAwake, kLight, kDeep, kWithoutWeights, kWithoutCache };

  Task<bool> FallAsleep(Exchange& exchange);
  Task<bool> WakeUp(Exchange& exchange);
  Task<bool> ReloadWeights(Exchange& exchange);
  Task<void> Pass(conf::Duration time);
  Task<bool> Refuse(Exchange& exchange, Api api, std::string_view why);

  gateway::net::Loop& loop_;
  Engine& engine_;
  Stats& stats_;
  const bool enabled_;
  State state_ = State::kAwake;
};

}  // namespace tidegate_engine
