// How each engine falls asleep, which frees its devices while its process stays, and how it wakes.
//
// vLLM needs --enable-sleep-mode, and VLLM_SERVER_DEV_MODE=1 for these paths, which its key does not guard; its
// level 2 discards the weights, which are loaded again (docs.vllm.ai, Sleep Mode). SGLang needs
// --enable-memory-saver, and guards them by its key (docs.sglang.io, SGLang for RL Systems).
#pragma once

#include <span>
#include <string_view>

namespace plugins::engines {

// A POST, answered below 300 once it is done.
struct EngineCall {
  std::string_view path;
  std::string_view query;
  std::string_view body;  // JSON
};

struct EngineSleep {
  std::string_view engine;                // as configurations write it
  std::span<const EngineCall> light;      // falls asleep with its weights in host memory
  std::span<const EngineCall> wake;       // from that
  std::span<const EngineCall> deep;       // falls asleep without weights; empty: it cannot
  std::span<const EngineCall> wake_deep;  // from that, one after the other
};

// Null: the engine cannot sleep.
const EngineSleep* FindEngineSleep(std::string_view engine);

}  // namespace plugins::engines
