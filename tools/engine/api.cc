#include "tools/engine/api.h"

#include <fmt/format.h>

#include "conf/json_text.h"

namespace tidegate_engine {
namespace {

constexpr Route kRoutes[] = {
    {"/v1/chat/completions", Api::kChat, "chat"},
    {"/v1/completions", Api::kCompletions, "completions"},
    {"/v1/responses", Api::kResponses, "responses"},
    {"/v1/messages", Api::kMessages, "messages"},
    {"/v1/messages/count_tokens", Api::kCountTokens, "messages"},
    {"/v1/embeddings", Api::kEmbeddings, "embeddings"},
    {"/v1/rerank", Api::kRerank, "rerank"},
    {"/v2/rerank", Api::kRerank, "rerank"},
    {"/rerank", Api::kRerank, "rerank"},
    {"/v1/score", Api::kScore, "score"},
    {"/score", Api::kScore, "score"},
    {"/tokenize", Api::kTokenize, "tokenize"},
    {"/detokenize", Api::kDetokenize, "tokenize"},
    {"/v1/models", Api::kModels, "models", true},
    {"/v1/audio/transcriptions", Api::kTranscriptions, "audio"},
    {"/v1/audio/translations", Api::kTranscriptions, "audio"},
    {"/v1/audio/speech", Api::kSpeech, "audio"},
    {"/v1/images/generations", Api::kImages, "images"},
    {"/v1/images/edits", Api::kImageEdits, "images"},
    {"/health", Api::kHealth, "health", true},
    {"/version", Api::kVersion, "version", true},
    {"/metrics", Api::kMetrics, "metrics", true},
    {"/engine/stats", Api::kStats, "engine", true},
    {"/engine/fault", Api::kFault, "engine", true},
    {"/engine/handover", Api::kHandover, "engine", true},
    {"/sleep", Api::kSleep, "sleep", true},
    {"/wake_up", Api::kWakeUp, "sleep", true},
    {"/is_sleeping", Api::kIsSleeping, "sleep", true},
    {"/collective_rpc", Api::kCollectiveRpc, "sleep", true},
    {"/v1/load_lora_adapter", Api::kLoadLora, "lora", true},
    {"/load_lora_adapter", Api::kLoadLora, "lora", true},
    {"/v1/unload_lora_adapter", Api::kUnloadLora, "lora", true},
    {"/unload_lora_adapter", Api::kUnloadLora, "lora", true},
};

std::string_view TypeOf(int status) {
  switch (status) {
    case 400:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 413:
      return "RequestEntityTooLargeError";
    case 429:
      return "RateLimitError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return "InternalServerError";
  }
}

std::string_view AnthropicTypeOf(int status) {
  switch (status) {
    case 400:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return "api_error";
  }
}

}  // namespace

std::span<const Route> Routes() {
  return kRoutes;
}

Api FindApi(std::string_view target, std::string_view* rest) {
  std::string_view path = target.substr(0, target.find('?'));
  for (const Route& route : kRoutes) {
    if (path == route.path) return route.api;
  }
  constexpr std::string_view kModel = "/v1/models/";
  if (path.starts_with(kModel) && path.size() > kModel.size()) {
    if (rest != nullptr) *rest = path.substr(kModel.size());
    return Api::kModels;
  }
  return Api::kUnknown;
}

std::string_view ApiName(Api api) {
  for (const Route& route : kRoutes) {
    if (route.api == api) return route.name;
  }
  return "";
}

std::optional<Api> ApiByName(std::string_view name) {
  for (const Route& route : kRoutes) {
    if (!name.empty() && route.name == name) return route.api;
  }
  return std::nullopt;
}

bool IsModelApi(Api api) {
  for (const Route& route : kRoutes) {
    if (route.api == api) return !route.always_served;
  }
  return false;
}

std::string ErrorBody(Api api, const ApiError& error) {
  std::string message = conf::Quoted(error.message);
  if (api == Api::kMessages || api == Api::kCountTokens) {
    return fmt::format(R"({{"type":"error","error":{{"type":"{}","message":{}}}}})",
                       AnthropicTypeOf(error.status), message);
  }
  std::string_view type = error.type.empty() ? TypeOf(error.status) : std::string_view(error.type);
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})", message, type,
                     error.param.empty() ? "null" : conf::Quoted(error.param), error.status);
}

}  // namespace tidegate_engine
