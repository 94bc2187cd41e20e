#include "gateway/feedback/feedback_request.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "conf/json_reader.h"
#include "router/facts/api.h"

namespace gateway::feedback {
namespace {

using api::Code;

api::ApiError Missing(std::string_view member, std::string_view what) {
  return api::Make(Code::kMissingParameter, fmt::format("{} must be given: {}", member, what),
                   std::string(member));
}
api::ApiError Wrong(Code code, std::string_view member, std::string_view must) {
  return api::Make(code, fmt::format("{} must be {}", member, must), std::string(member));
}

// What other services call a member of ours.
struct OtherName {
  std::string_view theirs;
  std::string_view ours;
};
constexpr std::array kOtherNames = {OtherName{"trace_id", "request_id"},
                                    OtherName{"traceId", "request_id"},
                                    OtherName{"run_id", "request_id"},
                                    OtherName{"id", "request_id"},
                                    OtherName{"key", "name"},
                                    OtherName{"score", "value"},
                                    OtherName{"rating", "value"}};
constexpr std::array<std::string_view, 5> kMembers = {"request_id", "name", "value", "comment", "correction"};

bool HasControls(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

std::optional<api::ApiError> ReadFreeText(const conf::Json& body, const char* member, size_t most,
                                          std::string& into) {
  const auto found = body.find(member);
  if (found == body.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) return Wrong(Code::kInvalidType, member, "a string");
  into = found->get<std::string>();
  if (into.size() > most)
    return Wrong(Code::kInvalidValue, member, fmt::format("at most {} bytes; it has {}", most, into.size()));
  return std::nullopt;
}

std::optional<api::ApiError> ReadValue(const conf::Json& value, ledger::FeedbackValue& into) {
  if (value.is_boolean()) {
    into = value.get<bool>();
    return std::nullopt;
  }
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (!std::isfinite(number)) return Wrong(Code::kInvalidValue, "value", "a number that 64 bits can hold");
    into = number;
    return std::nullopt;
  }
  if (!value.is_string()) return Wrong(Code::kInvalidType, "value", "a boolean, a number or a string");
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty() || text.size() > ledger::kMaxFeedbackText || HasControls(text)) {
    return Wrong(
        Code::kInvalidValue, "value",
        fmt::format("a category of 1 to {} bytes without control characters; longer text is for comment",
                    ledger::kMaxFeedbackText));
  }
  into = text;
  return std::nullopt;
}

}  // namespace

bool IsFeedbackName(std::string_view name) {
  if (name.empty() || name.size() > ledger::kMaxFeedbackName) return false;
  const auto letter = [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return letter(name.front()) && std::ranges::all_of(name, [&](char c) {
           return letter(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.';
         });
}

Result<GivenFeedback> ReadFeedback(const std::string& text) {
  conf::JsonFaults faults;
  const std::optional<conf::Json> body = conf::ParseJson(text, faults);
  if (!body || !body->is_object())
    return api::Make(Code::kInvalidJson, "the body must be one JSON object, without a repeated member");
  for (const auto& [name, value] : body->items()) {
    if (std::ranges::find(kMembers, std::string_view(name)) != kMembers.end()) continue;
    const auto* const other = std::ranges::find(kOtherNames, std::string_view(name), &OtherName::theirs);
    return api::Make(
        Code::kUnsupportedParameter,
        other != kOtherNames.end()
            ? fmt::format("{} is called {} here", name, other->ours)
            : fmt::format("{} is not a member of feedback, which has request_id, name, value, comment "
                          "and correction",
                          name.substr(0, 64)),
        name.substr(0, 64));
  }
  GivenFeedback given;
  const auto request = body->find("request_id");
  if (request == body->end()) return Missing("request_id", "the header x-request-id of the answer");
  if (!request->is_string()) return Wrong(Code::kInvalidType, "request_id", "a string");
  given.request = request->get<std::string>();
  const auto name = body->find("name");
  if (name == body->end()) return Missing("name", "what is judged, such as helpful");
  if (!name->is_string()) return Wrong(Code::kInvalidType, "name", "a string");
  given.name = name->get<std::string>();
  if (!IsFeedbackName(given.name)) {
    return Wrong(Code::kInvalidValue, "name",
                 fmt::format("1 to {} letters, digits, '_', '-' and '.', and begin with a letter",
                             ledger::kMaxFeedbackName));
  }
  const auto value = body->find("value");
  if (value == body->end()) return Missing("value", "a boolean, a number or a string");
  if (auto error = ReadValue(*value, given.value)) return *std::move(error);
  if (auto error = ReadFreeText(*body, "comment", ledger::kMaxFeedbackComment, given.comment))
    return *std::move(error);
  if (auto error = ReadFreeText(*body, "correction", ledger::kMaxFeedbackCorrection, given.correction))
    return *std::move(error);
  return given;
}

Result<std::string> ReadFeedbackQuery(std::string_view query) {
  std::optional<std::string> request;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    if (name != "request_id" || request) {
      return api::Make(Code::kUnsupportedParameter,
                       fmt::format("the query takes request_id, once, and not {}", name.substr(0, 64)),
                       std::string(name.substr(0, 64)));
    }
    request = router::PercentDecode(part.substr(std::min(equals + 1, part.size())));
    if (!request) return Wrong(Code::kInvalidValue, "request_id", "the id of a request, percent-encoded");
  }
  if (!request) return Missing("request_id", "the header x-request-id of the answer");
  return *std::move(request);
}

}  // namespace gateway::feedback
