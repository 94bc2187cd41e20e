// Every refusal and failure of a call, in the form of the client's protocol.
//
// One table (error.cc) gives each stable code its HTTP status, its type in both protocols, and whether the
// same request may succeed later. The SDKs choose their exception class by status and retry 408, 409, 429 and
// 5xx unless `x-should-retry` says otherwise, so the table decides it. Pure values, callable from every
// thread. Messages are for the caller: they name the problem and the correct form, never a secret.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/facts/body_facts.h"

namespace gateway::api {

enum class Protocol : uint8_t { kOpenAi, kAnthropic };

enum class Code : uint8_t {
  kBadRequest,  // not valid HTTP
  kInvalidJson,
  kNestingTooDeep,
  kInvalidMultipart,
  kIncompleteBody,
  kInvalidType,
  kInvalidValue,
  kMissingParameter,
  kMissingModel,
  kDuplicateKey,
  kUnsupportedParameter,
  kThreadUnsupported,
  kReservedHeader,
  kPreviousResponseNotFound,
  kContextLengthExceeded,
  kMissingApiKey,
  kInvalidApiKey,
  kKeyExpired,
  kKeyRevoked,
  kPermissionDenied,
  kModelUnpriced,
  kNotFound,
  kModelNotFound,
  kUnsupportedEndpoint,
  kMethodNotAllowed,
  kRequestTimeout,
  kConflict,
  kConfiguredInFile,
  kRequestTooLarge,
  kUriTooLong,
  kUnsupportedMediaType,
  kExpectationFailed,
  kInvalidConfig,
  kHeaderTooLarge,
  kRateLimitExceeded,
  kTooManyFailedAttempts,
  kInsufficientQuota,
  kConcurrencyLimit,
  kConnectionLimit,
  kBodyMemoryLimit,
  kQueueFull,
  kQueueShareExceeded,
  kTooManyJobs,
  kTooManyBatches,
  kFileStorageLimit,
  kTooManyReloads,
  kClientClosed,  // only in the ledger: the client has left
  kInternalError,
  kUnsupportedCoding,
  kUpstreamError,
  kAdapterRefused,
  kStreamInterrupted,
  kStreamLimit,
  kUpstreamUnavailable,
  kOverloaded,
  kStarting,
  kMemoryExhausted,
  kQueueTimeout,
  kNoReplicaStarted,
  kAdapterNotLoaded,
  kModelPaused,
  kDeadlineUnreachable,
  kLedgerUnavailable,
  kStoreUnavailable,
  kLimitsUnavailable,
  kIssuerUnavailable,
  kDraining,
  kUpstreamTimeout,
  kDeadlineExceeded,
  kUnsupportedVersion,
};

struct CodeInfo {
  Code code;
  std::string_view name;  // stable: clients may compare it
  int status;
  std::string_view openai_type;
  std::string_view anthropic_type;
  bool retry_helps;
};

// All codes, in the order of the enumeration.
std::span<const CodeInfo> AllCodes();
const CodeInfo& Info(Code code);

struct ApiError {
  int status = 500;
  std::string type;  // OpenAI's; Anthropic's follows from `code`, or from `status` for a foreign code
  std::string code;
  std::string message;
  std::string param;  // JSON path of the offending field, e.g. `messages[2].content[0].type`
  std::optional<bool> should_retry;
  std::optional<conf::Duration> retry_after;
  std::string limit;  // the limit that refused, e.g. `tenant:search/tokens_per_minute`
};

ApiError Make(Code code, std::string message, std::string param = {});

// `asked` does not exist for this caller; the message lists what its key may use (the first 20, then a
// count).
ApiError ModelNotFound(std::string_view asked, std::span<const std::string_view> allowed);

// The JSON body. A `request_id` that is not empty is in it, so that a pasted error can be looked up.
std::string RenderError(Protocol protocol, const ApiError& error, std::string_view request_id);

// The server-sent event that ends a stream which failed after its first byte. OpenAI clients throw on a
// `data:` that holds `error`, Anthropic's on `event: error`. Neither is followed by an end marker.
std::string RenderStreamError(Protocol protocol, const ApiError& error, std::string_view request_id);

struct ErrorHeader {
  std::string_view name;
  std::string value;
};

// x-should-retry, retry-after-ms and retry-after (rounded up), x-tidegate-limit: those that the error knows.
std::vector<ErrorHeader> ErrorHeaders(const ApiError& error);

// The error for a body whose facts could not be read.
ApiError FromFacts(const router::FactsError& error);

}  // namespace gateway::api
