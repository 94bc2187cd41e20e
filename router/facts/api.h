// The API surface as a table: its paths, how each is called, and its name in metrics.
//
// Pure and immutable; callable from any thread. A path that is not in the table has no route.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace router {

enum class Api : uint8_t {
  kChatCompletions,
  kCompletions,
  kEmbeddings,
  kResponses,
  kMessages,
  kCountTokens,
  kInputTokens,
  kRerank,
  kScore,
  kAudioTranscriptions,
  kAudioTranslations,
  kAudioSpeech,
  kImageGenerations,
  kImageEdits,
  kImageVariations,
  kTokenize,
  kDetokenize,
  kModels,
  kFiles,
  kBatches,
  kMessageBatches,
  kFeedback,
};
inline constexpr size_t kApiCount = static_cast<size_t>(Api::kFeedback) + 1;

enum class Method : uint8_t { kGet, kPost, kAny };  // kAny: what the rest of the path takes
enum class BodyKind : uint8_t {
  kNone,
  kJson,
  kMultipart,
  kJsonOrMultipart
};  // kJsonOrMultipart: by Content-Type
enum class Protocol : uint8_t { kOpenAi, kAnthropic };  // of errors and events

struct ApiSpec {
  Api api;
  std::string_view name;  // in metrics, ledger and permissions
  std::string_view path;  // after the version prefix
  Method method;
  BodyKind body;
  Protocol protocol;
  bool can_stream;
  bool unprefixed;         // engines also serve it without /v1
  std::string_view v2;     // a second versioned path, or empty
  std::string_view bound;  // the member that bounds its output tokens, or empty
};

// Whether the answer is the number of the request's tokens.
constexpr bool CountsTokens(Api api) {
  return api == Api::kCountTokens || api == Api::kInputTokens;
}

const ApiSpec& SpecOf(Api api);
std::span<const ApiSpec> AllApis();  // in the order of the enum
std::optional<Api> ApiByName(std::string_view name);

struct Route {
  Api api;
  const ApiSpec* spec;  // static
  // Of /v1/models/{id}, /v1/files/…, /v1/batches/… and /v1/messages/batches/…: what follows, percent-decoded; empty
  // for the lists and all other routes.
  std::string rest;
};

// `target`: an origin-form request target; a query string is ignored. Model ids may contain slashes, plain or
// percent-encoded. Nothing for an unknown path, a malformed escape, or an id with control characters.
std::optional<Route> MatchPath(std::string_view target);

// %XX decoding of a path (a '+' stays a plus). Nothing for a malformed escape or a decoded control character.
std::optional<std::string> PercentDecode(std::string_view text);

}  // namespace router
