// Parses request bodies. Ignores unknown fields, as vLLM does; refuses a known field of a wrong type or value
// with vLLM's 400.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/engine/api.h"
#include "tools/engine/generation.h"
#include "tools/engine/prompt.h"

namespace tidegate_engine {

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

// The fields that images and speech need from their JSON bodies.
struct Media {
  Api api = Api::kImages;
  std::string model;
  uint32_t n = 1;
  std::string input;
};

using Request = std::variant<ApiError, Generation, Pooling, Counting, Media>;

// `api` takes a JSON body. `block_size` is the engine's; with `keep_ids` prompts list their tokens.
Request ParseRequest(Api api, std::string_view body, uint32_t block_size, bool keep_ids = false);

}  // namespace tidegate_engine
