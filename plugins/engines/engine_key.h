// How each engine learns the key that it demands of its callers, and the question that shows whether it does.
//
// Which paths are open to everybody differs: vLLM asks for the key below /v1 alone, SGLang everywhere but at
// its health and metrics, llama.cpp everywhere but at its health and its list of models, TGI where it reads
// a prompt. TensorRT-LLM's server knows no key.
#pragma once

#include <string_view>

namespace plugins::engines {

struct EngineKey {
  std::string_view engine;    // as configurations write it
  std::string_view variable;  // of its environment; empty: it reads none, and its command hands the key over
  std::string_view path;      // refused without the key, answered with it, and cheap
  std::string_view body;      // of a POST, as JSON; empty: a GET
};

// Null: the engine can demand no key.
const EngineKey* FindEngineKey(std::string_view engine);

// In the environment of every replica that has a key, whatever its engine.
inline constexpr char kReplicaKeyVariable[] = "TIDEGATE_REPLICA_KEY";

}  // namespace plugins::engines
