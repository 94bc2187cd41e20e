// A request of one of the four text APIs. Its messages go through one chat template (template.h):
//   [system, the tools] { <|role|> content <|end|> } <|assistant|>
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/engine/api.h"
#include "tools/engine/handover.h"
#include "tools/engine/prompt.h"
#include "tools/engine/schema.h"

namespace tidegate_engine {

struct Tool {
  std::string name;
  Json parameters;  // a JSON schema, or null
};

enum class ToolChoice : uint8_t { kNone, kAuto, kRequired, kNamed };

struct Generation {
  Api api = Api::kChat;
  std::string model;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  uint32_t n = 1;
  std::optional<uint32_t> max_tokens;
  uint32_t min_tokens = 0;
  bool ignore_eos = false;
  bool echo = false;
  std::vector<std::string> stop;
  bool include_stop = false;
  uint64_t seed = 0;
  std::vector<Prompt> prompts;            // one, but for completions
  std::vector<std::string> prompt_texts;  // only with echo
  std::vector<Tool> tools;
  ToolChoice tool_choice = ToolChoice::kNone;
  std::string tool_name;  // with kNamed
  bool parallel_tools = true;
  std::string last_user;       // empty when the last message is not the user's
  std::optional<Json> schema;  // the answer must be an instance of it
  HandoverRequest handover;
};

}  // namespace tidegate_engine
