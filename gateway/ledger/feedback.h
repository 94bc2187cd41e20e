// Feedback: an application's judgement of an answer, as a record of the ledger. The name of the judgement, the
// request and the key are in the record's own fields (action, subject, actor), so that they are found like those
// of any event. The rest is in its detail:
//
//   {"value":true,"model":"chat-small","version":"org/chat-7b","replica":"r-chat-small-1","settled":true,
//    "known_to":812,"content_key":"…","comment":"BASE64","correction":"BASE64"}
//
// Comment and correction are content: they are sealed under the tenant's key (content_key.h) and erased with it.
//
// Pure; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <variant>

#include "gateway/ledger/parse.h"
#include "gateway/ledger/record.h"

namespace gateway::ledger {

// A judgement (helpful: true), a score (accuracy: 0.7) or a category (tone: "rude").
using FeedbackValue = std::variant<bool, double, std::string>;
enum class FeedbackType : uint8_t { kBoolean, kNumber, kText };
FeedbackType TypeOf(const FeedbackValue& value);
std::string_view Name(FeedbackType type);  // "boolean", "number", "text"

inline constexpr size_t kMaxFeedbackName = 64;   // bytes
inline constexpr size_t kMaxFeedbackText = 256;  // of a category
inline constexpr size_t kMaxFeedbackComment = 4096;
inline constexpr size_t kMaxFeedbackCorrection = 64 * 1024;

struct Feedback {
  std::string name;
  FeedbackValue value;
  std::string request;  // its id
  std::string tenant;
  std::string key;        // id of the caller's key
  std::string model;      // the asked model
  std::string version;    // what served it: the model's name at the engine; empty: nothing, or not known yet
  std::string replica;    // the replica that served it; empty: none, or not known yet
  bool settled = false;   // the request had ended
  uint64_t known_to = 0;  // the last record that was searched for the request's end
  std::string content_key;  // the name of the key that sealed the two below; empty: both are empty
  std::string comment;      // sealed, as bytes
  std::string correction;   // likewise
};

// A record of the kind kFeedback; the ledger sets its time.
Event EventOf(const Feedback& feedback);
// InvalidArgument: the record's detail is not feedback.
absl::StatusOr<Feedback> FeedbackOf(const Record& record);

}  // namespace gateway::ledger
