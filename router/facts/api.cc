#include "router/facts/api.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <array>

#include "conf/hex.h"
#include "conf/text.h"

namespace router {
namespace {

using enum Api;
using enum Method;
using enum BodyKind;
using enum Protocol;

constexpr std::array<ApiSpec, kApiCount> kApis = {{
    // api, name, path, method, body, protocol, streams, unprefixed, v2, bound
    {kChatCompletions, "chat_completions", "/chat/completions", kPost, kJson, kOpenAi, true, false, "",
     "max_tokens"},
    {kCompletions, "completions", "/completions", kPost, kJson, kOpenAi, true, false, "", "max_tokens"},
    {kEmbeddings, "embeddings", "/embeddings", kPost, kJson, kOpenAi, false, false, "", ""},
    {kResponses, "responses", "/responses", kPost, kJson, kOpenAi, true, false, "", "max_output_tokens"},
    {kMessages, "messages", "/messages", kPost, kJson, kAnthropic, true, false, "", "max_tokens"},
    {kCountTokens, "count_tokens", "/messages/count_tokens", kPost, kJson, kAnthropic, false, false, "", ""},
    {kInputTokens, "input_tokens", "/responses/input_tokens", kPost, kJson, kOpenAi, false, false, "", ""},
    {kRerank, "rerank", "/rerank", kPost, kJson, kOpenAi, false, true, "/v2/rerank", ""},
    {kScore, "score", "/score", kPost, kJson, kOpenAi, false, true, "", ""},
    {kAudioTranscriptions, "audio_transcriptions", "/audio/transcriptions", kPost, kMultipart, kOpenAi, true,
     false, "", ""},
    {kAudioTranslations, "audio_translations", "/audio/translations", kPost, kMultipart, kOpenAi, true, false,
     "", ""},
    {kAudioSpeech, "audio_speech", "/audio/speech", kPost, kJson, kOpenAi, true, false, "", ""},
    {kImageGenerations, "image_generations", "/images/generations", kPost, kJson, kOpenAi, true, false, "",
     ""},
    {kImageEdits, "image_edits", "/images/edits", kPost, kJsonOrMultipart, kOpenAi, true, false, "", ""},
    {kImageVariations, "image_variations", "/images/variations", kPost, kMultipart, kOpenAi, false, false, "",
     ""},
    {kTokenize, "tokenize", "/tokenize", kPost, kJson, kOpenAi, false, true, "", ""},
    {kDetokenize, "detokenize", "/detokenize", kPost, kJson, kOpenAi, false, true, "", ""},
    {kModels, "models", "/models", kGet, kNone, kOpenAi, false, false, "", ""},
    {kFiles, "files", "/files", kAny, kNone, kOpenAi, false, false, "", ""},
    {kBatches, "batches", "/batches", kAny, kNone, kOpenAi, false, false, "", ""},
    {kMessageBatches, "message_batches", "/messages/batches", kAny, kNone, kAnthropic, false, false, "", ""},
    {kFeedback, "feedback", "/feedback", kAny, kNone, kOpenAi, false, false, "", ""},
}};

constexpr bool InEnumOrder() {
  for (size_t i = 0; i < kApis.size(); ++i) {
    if (static_cast<size_t>(kApis[i].api) != i) return false;
  }
  return true;
}
static_assert(InEnumOrder(), "kApis is indexed by Api");

constexpr std::string_view kV1 = "/v1";

// What stands below a list.
std::optional<Route> MatchBelow(std::string_view path) {
  for (const Api api : {kModels, kFiles, kBatches, kMessageBatches}) {
    const std::string prefix = absl::StrCat(conf::Abseil(kV1), conf::Abseil(SpecOf(api).path), "/");
    if (!path.starts_with(prefix) || path.size() == prefix.size()) continue;
    std::optional<std::string> rest = PercentDecode(path.substr(prefix.size()));
    if (!rest) return std::nullopt;
    return Route{api, &SpecOf(api), *std::move(rest)};
  }
  return std::nullopt;
}

}  // namespace

const ApiSpec& SpecOf(Api api) {
  return kApis[static_cast<size_t>(api)];
}

std::span<const ApiSpec> AllApis() {
  return kApis;
}

std::optional<Api> ApiByName(std::string_view name) {
  for (const ApiSpec& spec : kApis) {
    if (spec.name == name) return spec.api;
  }
  return std::nullopt;
}

std::optional<Route> MatchPath(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  const bool versioned = path.starts_with(kV1);
  const std::string_view rest = versioned ? path.substr(kV1.size()) : path;
  for (const ApiSpec& spec : kApis) {
    const bool hit =
        (rest == spec.path && (versioned || spec.unprefixed)) || (!spec.v2.empty() && path == spec.v2);
    if (hit) return Route{spec.api, &spec, {}};
  }
  return MatchBelow(path);
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = conf::HexDigit(text[i + 1]);
      const int low = conf::HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

}  // namespace router
