// The body and the query by which an application gives and reads feedback, checked.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "gateway/api/error.h"
#include "gateway/ledger/feedback.h"

namespace gateway::feedback {

template <class T>
using Result = std::variant<T, api::ApiError>;

// Of the body; every text is bounded, and a JSON text may need six bytes for one.
inline constexpr size_t kMaxBody = 6 * (ledger::kMaxFeedbackCorrection + ledger::kMaxFeedbackComment) + 4096;

struct GivenFeedback {
  std::string request;
  std::string name;
  ledger::FeedbackValue value;
  std::string comment;
  std::string correction;
};

Result<GivenFeedback> ReadFeedback(const std::string& body);
// `query`: what stands behind the '?'; the id of the request that it names.
Result<std::string> ReadFeedbackQuery(std::string_view query);

// "helpful": a letter or an underscore, then letters, digits, '_', '-' and '.'.
bool IsFeedbackName(std::string_view name);

}  // namespace gateway::feedback
