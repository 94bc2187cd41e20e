#include "gateway/api/error_meaning.h"

namespace gateway::api {

std::string_view MeaningOf(Code code) {
  switch (code) {
    case Code::kBadRequest:
      return "The request is not HTTP that the gateway accepts.";
    case Code::kInvalidJson:
      return "The body is not valid JSON or not valid UTF-8.";
    case Code::kNestingTooDeep:
      return "The JSON body is nested too deeply.";
    case Code::kInvalidMultipart:
      return "The body is not a valid multipart form.";
    case Code::kIncompleteBody:
      return "The connection ended before the body was complete.";
    case Code::kInvalidType:
      return "A field has the wrong type; `param` names it.";
    case Code::kInvalidValue:
      return "A field or a header has a value that is not allowed; `param` names it.";
    case Code::kMissingParameter:
      return "A field that the API requires is missing; `param` names it.";
    case Code::kMissingModel:
      return "The body names no model.";
    case Code::kDuplicateKey:
      return "A field that decides about security or routing, such as `model`, appears twice.";
    case Code::kUnsupportedParameter:
      return "The gateway cannot translate this field for the engines of the model, or does not allow it.";
    case Code::kThreadUnsupported:
      return "The request has `thread`, but conversations are not kept here: send the whole one without it. "
             "The official SDKs do so by themselves.";
    case Code::kReservedHeader:
      return "The request carries a header that only the gateway may set.";
    case Code::kPreviousResponseNotFound:
      return "`previous_response_id` names no response that this gateway has relayed to the tenant.";
    case Code::kContextLengthExceeded:
      return "The prompt and the requested answer exceed the context of the model.";
    case Code::kMissingApiKey:
      return "The request carries no credentials.";
    case Code::kInvalidApiKey:
      return "The key or the token is not valid.";
    case Code::kKeyExpired:
      return "The key or the token has expired.";
    case Code::kKeyRevoked:
      return "The key was revoked.";
    case Code::kPermissionDenied:
      return "The key may not use this model or endpoint, or has no role that suffices.";
    case Code::kModelUnpriced:
      return "The call has no price, and a budget in money applies to the key.";
    case Code::kNotFound:
      return "The path or the object does not exist.";
    case Code::kModelNotFound:
      return "The model does not exist for this key; the message lists the models that do.";
    case Code::kUnsupportedEndpoint:
      return "No engine of the model serves this API.";
    case Code::kMethodNotAllowed:
      return "The path exists, but not with this method.";
    case Code::kRequestTimeout:
      return "The head or the body of the request took too long to arrive.";
    case Code::kConflict:
      return "The state of the object does not allow this change.";
    case Code::kConfiguredInFile:
      return "The configuration file has the object, so it is changed there and by a reload.";
    case Code::kRequestTooLarge:
      return "The body is larger than `server.limits.body_bytes`.";
    case Code::kUriTooLong:
      return "The path and the query of the request are too long.";
    case Code::kUnsupportedMediaType:
      return "The content type or the content coding of the body is not supported.";
    case Code::kExpectationFailed:
      return "The request expects something other than `100-continue`.";
    case Code::kInvalidConfig:
      return "The configuration is not valid; the running one stays in force.";
    case Code::kHeaderTooLarge:
      return "The head of the request is larger than `server.limits.head_bytes` or has too many headers.";
    case Code::kRateLimitExceeded:
      return "A limit on requests or tokens per minute is used up; `retry-after` says when to try again.";
    case Code::kTooManyFailedAttempts:
      return "Too many calls from this address had no valid key or token (`auth.failed_per_minute`). Correct "
             "the key; calls with a valid one are served at once.";
    case Code::kInsufficientQuota:
      return "A budget is used up. It is full again when its next period begins.";
    case Code::kConcurrencyLimit:
      return "The tenant or the key has reached its limit of concurrent requests.";
    case Code::kConnectionLimit:
      return "The client's address has reached its limit of connections.";
    case Code::kBodyMemoryLimit:
      return "The bodies of the running requests of the tenant take all of its `body_memory`.";
    case Code::kQueueFull:
      return "The queue of the model is full.";
    case Code::kQueueShareExceeded:
      return "The tenant already holds its share of the queue of the model.";
    case Code::kTooManyJobs:
      return "The jobs that have not ended, or their files, reach the gateway's limit.";
    case Code::kTooManyBatches:
      return "The tenant has as many batches that have not ended as it may.";
    case Code::kFileStorageLimit:
      return "The tenant's files reach the limit of files or bytes; deleting some makes room.";
    case Code::kTooManyReloads:
      return "Other reloads of the configuration wait already.";
    case Code::kClientClosed:
      return "The client closed the connection before the answer was complete. Only the ledger shows this "
             "code.";
    case Code::kInternalError:
      return "The gateway failed; its log says why.";
    case Code::kUnsupportedCoding:
      return "The request uses a transfer coding other than `chunked`.";
    case Code::kUpstreamError:
      return "The replica failed or sent an answer that is not valid.";
    case Code::kAdapterRefused:
      return "No engine of the base model could load the adapter; the message has the answer of one. Nothing "
             "is "
             "kept of it.";
    case Code::kStreamInterrupted:
      return "The replica broke off after the answer had begun; the stream ends with this error.";
    case Code::kStreamLimit:
      return "The streamed answer reached `stream_time` or `stream_bytes`.";
    case Code::kUpstreamUnavailable:
      return "No replica of the model could be reached.";
    case Code::kStarting:
      return "The gateway has just started and does not know yet what runs.";
    case Code::kOverloaded:
      return "The replicas of the model are overloaded and refused the request.";
    case Code::kMemoryExhausted:
      return "The bodies of all running requests take all of `server.limits.body_memory`.";
    case Code::kQueueTimeout:
      return "The request waited for a replica longer than allowed.";
    case Code::kNoReplicaStarted:
      return "No replica of the model started within `cold_start.hold`; the message says why.";
    case Code::kAdapterNotLoaded:
      return "No engine loaded the LoRA adapter that the request names within `queue.max_wait`.";
    case Code::kModelPaused:
      return "An operator has paused the model; the message gives the reason. Running requests finish.";
    case Code::kDeadlineUnreachable:
      return "The request cannot be answered before its deadline, so it is refused at once.";
    case Code::kLedgerUnavailable:
      return "The ledger cannot record the request: its disk is full, fails or is too slow.";
    case Code::kStoreUnavailable:
      return "The store of keys and other state refuses changes, since its disk is full or fails, the bucket "
             "of "
             "`files.s3` does not answer, or the gateway whose part the call is cannot be reached. Requests "
             "go on.";
    case Code::kLimitsUnavailable:
      return "Redis is away, and `when_unavailable: fail-closed` refuses what shared limits would have to "
             "allow.";
    case Code::kIssuerUnavailable:
      return "The key set of the issuer of the token cannot be fetched.";
    case Code::kDraining:
      return "The gateway is stopping and takes no new requests.";
    case Code::kUpstreamTimeout:
      return "The replica did not answer within the time that the model allows.";
    case Code::kDeadlineExceeded:
      return "The time that the request may take has passed.";
    case Code::kUnsupportedVersion:
      return "The HTTP version is not supported.";
  }
  return {};
}

}  // namespace gateway::api
