#include "plugins/engines/engine_sleep.h"

#include <algorithm>
#include <array>

namespace plugins::engines {
namespace {

constexpr std::array kVllmLight = {EngineCall{"/sleep", "level=1", "{}"}};
constexpr std::array kVllmWake = {EngineCall{"/wake_up", "", "{}"}};
constexpr std::array kVllmDeep = {EngineCall{"/sleep", "level=2", "{}"}};
constexpr std::array kVllmWakeDeep = {EngineCall{"/wake_up", "tags=weights", "{}"},
                                      EngineCall{"/collective_rpc", "", R"({"method":"reload_weights"})"},
                                      EngineCall{"/wake_up", "tags=kv_cache", "{}"}};
constexpr std::array kSglangLight = {EngineCall{"/release_memory_occupation", "", "{}"}};
constexpr std::array kSglangWake = {EngineCall{"/resume_memory_occupation", "", "{}"}};

constexpr std::array<EngineSleep, 2> kEngines{{{"vllm", kVllmLight, kVllmWake, kVllmDeep, kVllmWakeDeep},
                                               {"sglang", kSglangLight, kSglangWake, {}, {}}}};

}  // namespace

const EngineSleep* FindEngineSleep(std::string_view engine) {
  const auto* const found = std::ranges::find(kEngines, engine, &EngineSleep::engine);
  return found == kEngines.end() ? nullptr : found;
}

}  // namespace plugins::engines
