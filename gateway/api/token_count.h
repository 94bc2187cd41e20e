// Counts of tokens by way of the engine: the body for its `/tokenize`, the count in its answer, the client's
// answer. Engines differ in what they tokenize: a conversation under its template (vLLM), or one text, which
// then is all that the conversation says.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/chat.h"
#include "gateway/api/error.h"

namespace gateway::api {

enum class Tokenizer : uint8_t {
  kMessages,  // {"messages", "tools"} -> {"count"}
  kPrompt,    // {"prompt"} -> {"count"} (SGLang)
  kContent,   // {"content"} -> {"tokens"} (llama.cpp)
  kInputs,    // {"inputs"} -> [token, …] (TGI)
};

// Changes a request in chat form into a body for this tokenizer. `model`: the name by which the engine knows it.
void AskTokenizer(ChatRequest& request, std::string_view model, Tokenizer tokenizer);
std::optional<uint64_t> CountFromTokenize(std::string_view answer);
// The answer of `/v1/messages/count_tokens`, or of `/v1/responses/input_tokens`.
std::string RenderTokenCount(uint64_t input_tokens, Protocol protocol);
// For engines without `/tokenize`. An image counts as a fixed 1,000 tokens.
uint64_t EstimateTokens(const ChatRequest& request, double bytes_per_token);

}  // namespace gateway::api
