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
  kSleep,
  kWakeUp,
  kIsSleeping,
  kCollectiveRpc,
  kLoadLora,
  kUnloadLora,
  kUnknown,
};

struct Route {
  std::string_view path;
  Api api;
  std::string_view name;       // as in --only and in faults
  bool always_served = false;  // --only does not hide it
};

std::span<const Route> Routes();

// kUnknown for a path of no API. Ignores a query string. `rest`: the rest of a path that has one.
Api FindApi(std::string_view target, std::string_view* rest = nullptr);
std::string_view ApiName(Api api);
std::optional<Api> ApiByName(std::string_view name);

// Whether --only may hide it, and faults apply to it by default: APIs that run the model.
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
