#include "gateway/api/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conf/json_text.h"
#include "conf/text.h"

namespace gateway::api {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kAuthentication = "authentication_error";
constexpr std::string_view kPermission = "permission_error";
constexpr std::string_view kMissing = "not_found_error";
constexpr std::string_view kRate = "rate_limit_error";
constexpr std::string_view kServer = "server_error";  // OpenAI's word for what Anthropic calls api_error
constexpr std::string_view kApi = "api_error";
constexpr std::string_view kOverload = "overloaded_error";
constexpr std::string_view kTimeout = "timeout_error";

constexpr auto kCodes = std::to_array<CodeInfo>({
    {Code::kBadRequest, "bad_request", 400, kInvalid, kInvalid, false},
    {Code::kInvalidJson, "invalid_json", 400, kInvalid, kInvalid, false},
    {Code::kNestingTooDeep, "nesting_too_deep", 400, kInvalid, kInvalid, false},
    {Code::kInvalidMultipart, "invalid_multipart", 400, kInvalid, kInvalid, false},
    {Code::kIncompleteBody, "incomplete_body", 400, kInvalid, kInvalid, false},
    {Code::kInvalidType, "invalid_type", 400, kInvalid, kInvalid, false},
    {Code::kInvalidValue, "invalid_value", 400, kInvalid, kInvalid, false},
    {Code::kMissingParameter, "missing_required_parameter", 400, kInvalid, kInvalid, false},
    {Code::kMissingModel, "missing_model", 400, kInvalid, kInvalid, false},
    {Code::kDuplicateKey, "duplicate_key", 400, kInvalid, kInvalid, false},
    {Code::kUnsupportedParameter, "unsupported_parameter", 400, kInvalid, kInvalid, false},
    {Code::kThreadUnsupported, "thread_unsupported_request", 400, kInvalid, kInvalid, false},
    {Code::kReservedHeader, "reserved_header", 400, kInvalid, kInvalid, false},
    {Code::kPreviousResponseNotFound, "previous_response_not_found", 400, kInvalid, kInvalid, false},
    {Code::kContextLengthExceeded, "context_length_exceeded", 400, kInvalid, kInvalid, false},
    {Code::kMissingApiKey, "missing_api_key", 401, kAuthentication, kAuthentication, false},
    {Code::kInvalidApiKey, "invalid_api_key", 401, kAuthentication, kAuthentication, false},
    {Code::kKeyExpired, "key_expired", 401, kAuthentication, kAuthentication, false},
    {Code::kKeyRevoked, "key_revoked", 401, kAuthentication, kAuthentication, false},
    {Code::kPermissionDenied, "permission_denied", 403, kPermission, kPermission, false},
    {Code::kModelUnpriced, "model_unpriced", 403, kPermission, kPermission, false},
    {Code::kNotFound, "not_found", 404, kInvalid, kMissing, false},
    {Code::kModelNotFound, "model_not_found", 404, kInvalid, kMissing, false},
    {Code::kUnsupportedEndpoint, "unsupported_endpoint", 404, kInvalid, kMissing, false},
    {Code::kMethodNotAllowed, "method_not_allowed", 405, kInvalid, kInvalid, false},
    {Code::kRequestTimeout, "request_timeout", 408, kTimeout, kTimeout, true},
    {Code::kConflict, "conflict", 409, kInvalid, kInvalid, false},
    {Code::kConfiguredInFile, "configured_in_file", 409, kInvalid, kInvalid, false},
    {Code::kRequestTooLarge, "request_too_large", 413, kInvalid, "request_too_large", false},
    {Code::kUriTooLong, "uri_too_long", 414, kInvalid, kInvalid, false},
    {Code::kUnsupportedMediaType, "unsupported_media_type", 415, kInvalid, kInvalid, false},
    {Code::kExpectationFailed, "expectation_failed", 417, kInvalid, kInvalid, false},
    {Code::kInvalidConfig, "invalid_config", 422, kInvalid, kInvalid, false},
    {Code::kHeaderTooLarge, "header_too_large", 431, kInvalid, "request_too_large", false},
    {Code::kRateLimitExceeded, "rate_limit_exceeded", 429, kRate, kRate, true},
    {Code::kTooManyFailedAttempts, "too_many_failed_attempts", 429, kRate, kRate, false},
    {Code::kInsufficientQuota, "insufficient_quota", 429, "insufficient_quota", "billing_error", false},
    {Code::kConcurrencyLimit, "concurrency_limit", 429, kRate, kRate, true},
    {Code::kConnectionLimit, "connection_limit", 429, kRate, kRate, true},
    {Code::kBodyMemoryLimit, "body_memory_limit", 429, kRate, kRate, true},
    {Code::kQueueFull, "queue_full", 429, kRate, kRate, true},
    {Code::kQueueShareExceeded, "queue_share_exceeded", 429, kRate, kRate, true},
    {Code::kTooManyJobs, "too_many_jobs", 429, kRate, kRate, true},
    {Code::kTooManyBatches, "too_many_batches", 429, kRate, kRate, true},
    {Code::kFileStorageLimit, "file_storage_limit", 429, kRate, kRate, false},
    {Code::kTooManyReloads, "too_many_reloads", 429, kRate, kRate, true},
    {Code::kClientClosed, "client_closed", 499, kInvalid, kInvalid, false},
    {Code::kInternalError, "internal_error", 500, kServer, kApi, true},
    {Code::kUnsupportedCoding, "unsupported_transfer_coding", 501, kInvalid, kInvalid, false},
    {Code::kUpstreamError, "upstream_error", 502, kServer, kApi, true},
    {Code::kAdapterRefused, "adapter_refused", 502, kServer, kApi, false},
    {Code::kStreamInterrupted, "stream_interrupted", 502, kServer, kApi, true},
    {Code::kStreamLimit, "stream_limit", 502, kServer, kApi, false},
    {Code::kUpstreamUnavailable, "upstream_unavailable", 503, kServer, kApi, true},
    {Code::kOverloaded, "overloaded", 503, kServer, kOverload, true},
    {Code::kStarting, "starting", 503, kServer, kOverload, true},
    {Code::kMemoryExhausted, "memory_exhausted", 503, kServer, kOverload, true},
    {Code::kQueueTimeout, "queue_timeout", 503, kServer, kOverload, true},
    {Code::kNoReplicaStarted, "no_replica_started", 503, kServer, kOverload, true},
    {Code::kAdapterNotLoaded, "adapter_not_loaded", 503, kServer, kOverload, true},
    {Code::kModelPaused, "model_paused", 503, kServer, kOverload, false},
    {Code::kDeadlineUnreachable, "deadline_unreachable", 503, kServer, kOverload, true},
    {Code::kLedgerUnavailable, "ledger_unavailable", 503, kServer, kApi, true},
    {Code::kStoreUnavailable, "store_unavailable", 503, kServer, kApi, true},
    {Code::kLimitsUnavailable, "limits_unavailable", 503, kServer, kApi, true},
    {Code::kIssuerUnavailable, "issuer_unavailable", 503, kServer, kApi, true},
    {Code::kDraining, "draining", 503, kServer, kOverload, true},
    {Code::kUpstreamTimeout, "upstream_timeout", 504, kServer, kTimeout, true},
    {Code::kDeadlineExceeded, "deadline_exceeded", 504, kServer, kTimeout, true},
    {Code::kUnsupportedVersion, "unsupported_http_version", 505, kInvalid, kInvalid, false},
});

constexpr bool InOrder() {
  for (size_t i = 0; i < kCodes.size(); ++i) {
    if (static_cast<size_t>(kCodes[i].code) != i) return false;
  }
  return static_cast<size_t>(Code::kUnsupportedVersion) + 1 == kCodes.size();
}
static_assert(InOrder(), "the table has one row for each code, in the order of the enumeration");

// The name of a model as callers may read it again: names of models have at most 128 bytes.
std::string Shortened(std::string_view name) {
  constexpr size_t kMost = 256;
  if (name.size() <= kMost) return std::string(name);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // within a character
  return std::string(name.substr(0, end)) + "…";
}

std::string_view AnthropicType(const ApiError& error) {
  const auto row = std::find_if(kCodes.begin(), kCodes.end(),
                                [&](const CodeInfo& info) { return info.name == error.code; });
  // An engine's own error has its own status.
  const bool of_engine =
      row != kCodes.end() && row->code == Code::kUpstreamError && error.status != row->status;
  if (row != kCodes.end() && !of_engine) return row->anthropic_type;
  switch (error.status) {
    case 401:
      return kAuthentication;
    case 403:
      return kPermission;
    case 404:
      return kMissing;
    case 408:
    case 504:
      return kTimeout;
    case 413:
      return "request_too_large";
    case 429:
      return kRate;
    case 503:
    case 529:
      return kOverload;
    default:
      return error.status >= 500 ? kApi : kInvalid;
  }
}

void AppendMember(std::string& out, std::string_view name, std::string_view value) {
  if (out.back() != '{') out += ',';
  conf::AppendQuoted(out, name);
  out += ':';
  conf::AppendQuoted(out, value);
}

void AppendNullable(std::string& out, std::string_view name, std::string_view value) {
  if (!value.empty()) return AppendMember(out, name, value);
  out += fmt::format(",\"{}\":null", name);
}

Code CodeOf(router::FactsErrorCode code) {
  switch (code) {
    case router::FactsErrorCode::kInvalidJson:
    case router::FactsErrorCode::kInvalidUtf8:
      return Code::kInvalidJson;
    case router::FactsErrorCode::kInvalidType:
    case router::FactsErrorCode::kNotAnObject:
      return Code::kInvalidType;
    case router::FactsErrorCode::kInvalidValue:
      return Code::kInvalidValue;
    case router::FactsErrorCode::kUnsupportedMember:
      return Code::kUnsupportedParameter;
    case router::FactsErrorCode::kMissingModel:
      return Code::kMissingModel;
    case router::FactsErrorCode::kDuplicateKey:
    case router::FactsErrorCode::kAmbiguousKey:
      return Code::kDuplicateKey;
    case router::FactsErrorCode::kInvalidMultipart:
      return Code::kInvalidMultipart;
    case router::FactsErrorCode::kTooDeep:
      return Code::kNestingTooDeep;
  }
  return Code::kInvalidJson;
}

}  // namespace

std::span<const CodeInfo> AllCodes() {
  return kCodes;
}

const CodeInfo& Info(Code code) {
  return kCodes[static_cast<size_t>(code)];
}

ApiError Make(Code code, std::string message, std::string param) {
  const CodeInfo& info = Info(code);
  return {.status = info.status,
          .type = std::string(info.openai_type),
          .code = std::string(info.name),
          .message = std::move(message),
          .param = std::move(param),
          .should_retry = info.retry_helps,
          .retry_after = std::nullopt,
          .limit = {}};
}

ApiError ModelNotFound(std::string_view asked, std::span<const std::string_view> allowed) {
  constexpr size_t kShown = 20;
  std::string message =
      fmt::format("The model \"{}\" does not exist or this key may not use it", Shortened(asked));
  if (allowed.empty()) {
    message += "; this key may use no model.";
  } else {
    const size_t shown = std::min(allowed.size(), kShown);
    const std::string hint = conf::DidYouMean(asked, allowed);
    message += fmt::format("{} This key may use: {}", hint.empty() ? "." : hint,
                           fmt::join(allowed.first(shown), ", "));
    message += shown < allowed.size() ? fmt::format(" and {} more.", allowed.size() - shown) : ".";
  }
  return Make(Code::kModelNotFound, std::move(message), "model");
}

std::string RenderError(Protocol protocol, const ApiError& error, std::string_view request_id) {
  std::string out;
  out.reserve(192 + error.message.size());
  if (protocol == Protocol::kOpenAi) {
    out = "{\"error\":{";
    AppendMember(out, "message", error.message);
    AppendMember(out, "type", error.type);
    AppendNullable(out, "param", error.param);
    AppendNullable(out, "code", error.code);
    if (!request_id.empty()) AppendMember(out, "request_id", request_id);
    out += "}}";
    return out;
  }
  out = "{\"type\":\"error\",\"error\":{";
  AppendMember(out, "type", AnthropicType(error));
  AppendMember(out, "message", error.message);
  if (!error.code.empty()) AppendMember(out, "code", error.code);
  if (!error.param.empty()) AppendMember(out, "param", error.param);
  // SDKs that keep the conversation themselves, too, read this member alone and send all of it.
  const std::string_view thread = Info(Code::kThreadUnsupported).name;
  if (error.code == thread) out += fmt::format(",\"details\":{{\"error_code\":\"{}\"}}", thread);
  out += '}';
  if (!request_id.empty()) AppendMember(out, "request_id", request_id);
  out += '}';
  return out;
}

std::string RenderStreamError(Protocol protocol, const ApiError& error, std::string_view request_id) {
  const std::string_view event = protocol == Protocol::kAnthropic ? "event: error\n" : "";
  return fmt::format("{}data: {}\n\n", event, RenderError(protocol, error, request_id));
}

std::vector<ErrorHeader> ErrorHeaders(const ApiError& error) {
  std::vector<ErrorHeader> headers;
  if (error.should_retry) headers.push_back({"x-should-retry", *error.should_retry ? "true" : "false"});
  if (error.retry_after) {
    const auto wait = std::max(*error.retry_after, conf::Duration::zero());
    headers.push_back(
        {"retry-after-ms", std::to_string(std::chrono::ceil<std::chrono::milliseconds>(wait).count())});
    headers.push_back({"retry-after", std::to_string(std::chrono::ceil<std::chrono::seconds>(wait).count())});
  }
  if (!error.limit.empty()) {
    std::string value = error.limit;
    std::replace_if(value.begin(), value.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    headers.push_back({"x-tidegate-limit", std::move(value)});
  }
  return headers;
}

ApiError FromFacts(const router::FactsError& error) {
  return Make(CodeOf(error.code), error.message, error.path.empty() ? std::string(error.param) : error.path);
}

}  // namespace gateway::api
