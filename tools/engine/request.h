// Request bodies, read into what the engine needs of them. Fields it has no use for are accepted and passed
// over, as vLLM does; wrong types and values of known ones are refused with vLLM's 400.
//
// The four text APIs end in the same Generation. Their messages go through one chat template:
//   [system, the tools] { <|role|> content <|end|> } <|assistant|>
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
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

// Embeddings, rerank and score: texts to run through the model once.
struct Pooling {
  Api api = Api::kEmbeddings;
  std::string model;
  bool base64 = false;
  uint32_t dimensions = 0;  // 0: the engine's own
  uint32_t top_n = 0;       // 0: all
  std::vector<Prompt> prompts;
  std::vector<std::string> documents;  // rerank echoes them
};

// Tokenize and count_tokens: a prompt with its ids; detokenize: the text.
struct Counting {
  Api api = Api::kTokenize;
  std::string model;
  Prompt prompt{16, true};
  std::string text;
};

// What images and speech need of their JSON bodies.
struct Media {
  Api api = Api::kImages;
  std::string model;
  uint32_t n = 1;
  std::string input;
};

using Request = std::variant<ApiError, Generation, Pooling, Counting, Media>;

// `api` is one that takes a JSON body. `block_size` is the engine's; with `keep_ids`
// prompts list their tokens.
Request ParseRequest(Api api, std::string_view body, uint32_t block_size, bool keep_ids = false);

}  // namespace tidegate_engine
