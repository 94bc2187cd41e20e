// The APIs the engine knows, by path, and the shape of an error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tidegate_engine {

enum class Api : uint8_t {
  kChat,
  kCompletions,
  kResponses,
  kMessages,
  kCountTokens,
  kEmbeddings,
  kRerank,
  kScore,
  kTokenize,
  kDetokenize,
  kModels,
  kTranscriptions,
  kSpeech,
  kImages,
  kImageEdits,
  kHealth,
  kVersion,
  kMetrics,
  kStats,
  kFault,
  kHandover,
  kUnknown,
};

struct Route {
  std::string_view path;
  Api api;
  std::string_view name;       // as in --only and in faults
  bool always_served = false;  // --only does not hide it
};

std::span<const Route> Routes();

// kUnknown for a path that no API has. A query string is ignored. `rest` is what follows a path that takes
// one.
Api FindApi(std::string_view target, std::string_view* rest = nullptr);
std::string_view ApiName(Api api);
std::optional<Api> ApiByName(std::string_view name);

// Whether --only may hide it and faults befall it without being told so: the ones that do a model's work.
bool IsModelApi(Api api);

struct ApiError {
  int status = 400;
  std::string type;  // BadRequestError, NotFoundError, …; empty: by the status
  std::string message;
  std::string param;  // empty: null
};

// The body in the API's own form: vLLM's error object, or Anthropic's for messages.
std::string ErrorBody(Api api, const ApiError& error);

}  // namespace tidegate_engine
