// A call for feedback, and its answer, as one gateway passes them to another through the store.
//
//   {"to":"PUBLIC KEY","call":"SEALED"}     from the asked gateway
//   {"to":"PUBLIC KEY","answer":"SEALED"}   from the one that served the request, in its place
//
// What is sealed (box_key.h) has the tenant and the key that the asked gateway has checked, never a credential; what
// the caller gives or asks for; and the key to which the answer is sealed.
//
// Pure; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "gateway/feedback/box_key.h"
#include "gateway/feedback/service.h"

namespace gateway::feedback {

struct PassedCall {
  Call call;
  std::string reply_to;  // the public half of the asking gateway's key
};

// An object in the store: its receiver, and whether it is an answer.
struct PassedBody {
  std::string to;
  bool answer = false;
  std::string sealed;
};

// None: `to` is no key.
std::optional<std::string> BodyOfCall(const Call& call, const std::string& to, const std::string& reply_to);
std::optional<std::string> BodyOfAnswer(const Reply& reply, const std::string& to);
// DataLoss: it is none.
absl::StatusOr<PassedBody> ReadPassedBody(std::string_view body);
// DataLoss: it cannot be opened with this key, or is none.
absl::StatusOr<PassedCall> OpenCall(const BoxKey& key, std::string_view sealed);
absl::StatusOr<Reply> OpenAnswer(const BoxKey& key, std::string_view sealed);

}  // namespace gateway::feedback
