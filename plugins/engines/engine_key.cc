#include "plugins/engines/engine_key.h"

#include <algorithm>
#include <array>

namespace plugins::engines {
namespace {

constexpr std::array<EngineKey, 4> kKeys{{{"vllm", "VLLM_API_KEY", "/v1/models", ""},
                                          {"sglang", "", "/v1/models", ""},
                                          {"llamacpp", "LLAMA_API_KEY", "/props", ""},
                                          {"tgi", "API_KEY", "/tokenize", R"({"inputs":"a"})"}}};

}  // namespace

const EngineKey* FindEngineKey(std::string_view engine) {
  const auto* const found = std::ranges::find(kKeys, engine, &EngineKey::engine);
  return found == kKeys.end() ? nullptr : found;
}

}  // namespace plugins::engines
