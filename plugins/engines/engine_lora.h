// How each engine loads and unloads LoRA adapters while it runs, and how it lists them.
//
// vLLM needs --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True (docs.vllm.ai, LoRA Adapters); where several
// API servers share its port (--api-server-count), only one of them would know the adapter. SGLang needs --enable-lora
// with --max-lora-rank and --lora-target-modules, or --lora-paths (docs.sglang.io, LoRA Serving). Both list loaded
// adapters at /v1/models, with the base as `parent`.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace plugins::engines {

struct EngineLora {
  std::string_view engine;  // as configurations write it
  std::string_view load;    // path of a POST, answered by 200 once the adapter is loaded
  std::string_view unload;  // path of a POST, answered by 200 once the adapter is unloaded
  std::string_view list;    // path of a GET
};

// Null: the engine loads no adapter while it runs.
const EngineLora* FindEngineLora(std::string_view engine);

// Bodies of the calls.
std::string LoadBody(std::string_view name, std::string_view source);
std::string UnloadBody(std::string_view name);

// The adapters that the body of an answer to `list` names. DataLoss: it is no such list.
absl::StatusOr<std::vector<std::string>> ListedAdapters(std::string_view body);

// The reason in an answer that is not 200, for people: at most a line.
std::string RefusalIn(int status, std::string_view body);

}  // namespace plugins::engines
