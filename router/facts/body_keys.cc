#include "router/facts/body_keys.h"

#include <array>

#include "conf/text.h"

namespace router {
namespace {

using enum Api;

template <class... A>
constexpr uint32_t In(A... apis) {
  return ((1U << static_cast<unsigned>(apis)) | ...);
}

constexpr uint32_t kEveryApi = (1U << kApiCount) - 1;
constexpr uint32_t kImages = In(kImageGenerations, kImageEdits, kImageVariations);
constexpr uint32_t kAnthropicApis = In(kMessages, kCountTokens);
constexpr uint32_t kResponsesApis = In(kResponses, kInputTokens);
constexpr uint8_t kAnything = kString | kArray | kObject | kNumber | kBool | kNull;
constexpr uint32_t kGenerates = In(kChatCompletions, kCompletions);
constexpr uint32_t kWrites = kGenerates | In(kMessages, kResponses);

constexpr std::array<KeySpec, kKeyCount> kKeys = {{
    {Key::kModel, "model", kString, kEveryApi},
    {Key::kStream, "stream", kBool | kNull, kEveryApi},
    {Key::kStreamFormat, "stream_format", kString | kNull, In(kAudioSpeech)},
    {Key::kStreamOptions, "stream_options", kObject | kNull, kGenerates | In(kResponses)},
    {Key::kMaxTokens, "max_tokens", kNumber | kNull, kGenerates | In(kMessages), In(kResponses)},
    {Key::kMaxCompletionTokens, "max_completion_tokens", kNumber | kNull, kGenerates,
     In(kMessages, kResponses)},
    {Key::kMaxOutputTokens, "max_output_tokens", kNumber | kNull, In(kResponses), kGenerates | In(kMessages)},
    {Key::kNPredict, "n_predict", kNumber | kNull, kGenerates, In(kMessages, kResponses)},
    // Bounds of engines' own APIs. One that stood beside the API's own would be obeyed unseen.
    {Key::kMaxNewTokens, "max_new_tokens", kAnything, 0, kWrites},
    {Key::kMaxTokensToSample, "max_tokens_to_sample", kAnything, 0, kWrites},
    {Key::kNumPredict, "num_predict", kAnything, 0, kWrites},
    // Counts of answers. llama.cpp's own name for `n` wins over it there.
    {Key::kN, "n", kNumber | kNull, kGenerates | kImages, In(kMessages, kResponses)},
    {Key::kNCmpl, "n_cmpl", kNumber | kNull, kGenerates, In(kMessages, kResponses)},
    {Key::kBestOf, "best_of", kNumber | kNull, kGenerates, In(kMessages, kResponses)},
    {Key::kMessages, "messages", kArray, In(kChatCompletions, kTokenize) | kAnthropicApis},
    {Key::kTools, "tools", kArray | kNull, In(kChatCompletions, kTokenize) | kResponsesApis | kAnthropicApis},
    {Key::kFunctions, "functions", kArray | kNull, In(kChatCompletions)},
    {Key::kSystem, "system", kString | kArray | kNull, kAnthropicApis},
    {Key::kInstructions, "instructions", kString | kArray | kNull, kResponsesApis | In(kAudioSpeech)},
    {Key::kPrompt, "prompt", kString | kArray | kNull, In(kCompletions, kTokenize) | kImages},
    // vLLM's: prompts as embeddings, each of them beside those of `prompt`.
    {Key::kPromptEmbeds, "prompt_embeds", kString | kArray | kNull, In(kCompletions)},
    {Key::kInput, "input", kString | kArray | kNull, kResponsesApis | In(kEmbeddings, kAudioSpeech)},
    {Key::kQuery, "query", kString | kArray | kObject, In(kRerank)},
    {Key::kDocuments, "documents", kArray | kObject, In(kRerank)},
    {Key::kText1, "text_1", kString | kArray | kObject, In(kScore)},
    {Key::kText2, "text_2", kString | kArray | kObject, In(kScore)},
    {Key::kTokens, "tokens", kArray, In(kDetokenize)},
    {Key::kUser, "user", kString | kNull, kEveryApi},
    {Key::kSafetyIdentifier, "safety_identifier", kString | kNull, kEveryApi},
    {Key::kMetadata, "metadata", kObject | kNull, kAnthropicApis},
    {Key::kPromptCacheKey, "prompt_cache_key", kString | kNull, kEveryApi},
    {Key::kSessionId, "session_id", kString | kNull, kEveryApi},
    {Key::kPreviousResponseId, "previous_response_id", kString | kNull, kResponsesApis},
    {Key::kServiceTier, "service_tier", kString | kNull, kEveryApi},
    {Key::kPriority, "priority", kNumber | kNull, kEveryApi},
    {Key::kMinTokens, "min_tokens", kAnything, kGenerates},
    {Key::kCacheSalt, "cache_salt", kString | kNull, kEveryApi},
    {Key::kKvTransferParams, "kv_transfer_params", kAnything, kEveryApi},
    {Key::kBootstrapHost, "bootstrap_host", kAnything, kEveryApi},
    {Key::kBootstrapPort, "bootstrap_port", kAnything, kEveryApi},
    {Key::kBootstrapRoom, "bootstrap_room", kAnything, kEveryApi},
    // SGLang's: the adapter to use, whatever `model` names.
    {Key::kLoraPath, "lora_path", kAnything, kEveryApi},
}};

constexpr bool WellFormed() {
  for (size_t i = 0; i < kKeys.size(); ++i) {
    if (static_cast<size_t>(kKeys[i].key) != i || kKeys[i].name.size() > kMaxKeyName) return false;
  }
  return true;
}
static_assert(WellFormed(), "kKeys is indexed by Key");

// The rows whose names have a given length, as bits: most members of a body match no row by length alone.
constexpr std::array<uint64_t, kMaxKeyName + 1> RowsByLength() {
  std::array<uint64_t, kMaxKeyName + 1> rows{};
  for (size_t i = 0; i < kKeys.size(); ++i) rows[kKeys[i].name.size()] |= uint64_t{1} << i;
  return rows;
}
static_assert(kKeyCount <= 64);
constexpr auto kRowsByLength = RowsByLength();

}  // namespace

const KeySpec* FindKey(std::string_view name, bool& exact) {
  if (name.size() > kMaxKeyName) return nullptr;
  for (uint64_t rows = kRowsByLength[name.size()]; rows != 0; rows &= rows - 1) {
    const KeySpec& spec = kKeys[static_cast<size_t>(__builtin_ctzll(rows))];
    if ((spec.name.front() | 0x20) != (name.front() | 0x20)) continue;
    exact = spec.name == name;
    if (exact || conf::EqualsIgnoreCase(spec.name, name)) return &spec;
  }
  return nullptr;
}

}  // namespace router
