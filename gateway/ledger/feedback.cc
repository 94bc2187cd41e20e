#include "gateway/ledger/feedback.h"

#include <absl/strings/escaping.h>

#include <array>
#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/text.h"

namespace gateway::ledger {
namespace {

using Detail = nlohmann::ordered_json;

std::string TextIn(const Detail& detail, const char* name) {
  const auto found = detail.find(name);
  return found != detail.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string BytesIn(const Detail& detail, const char* name) {
  std::string bytes;
  if (!absl::Base64Unescape(TextIn(detail, name), &bytes)) bytes.clear();
  return bytes;
}

}  // namespace

FeedbackType TypeOf(const FeedbackValue& value) {
  return static_cast<FeedbackType>(value.index());
}

std::string_view Name(FeedbackType type) {
  constexpr std::array<std::string_view, 3> kNames = {"boolean", "number", "text"};
  return kNames[static_cast<size_t>(type)];
}

Event EventOf(const Feedback& feedback) {
  Detail detail;
  std::visit([&detail](const auto& value) { detail["value"] = value; }, feedback.value);
  detail["model"] = feedback.model;
  if (!feedback.version.empty()) detail["version"] = feedback.version;
  if (!feedback.replica.empty()) detail["replica"] = feedback.replica;
  detail["settled"] = feedback.settled;
  if (!feedback.settled) detail["known_to"] = feedback.known_to;
  if (!feedback.content_key.empty()) detail["content_key"] = feedback.content_key;
  if (!feedback.comment.empty()) detail["comment"] = absl::Base64Escape(feedback.comment);
  if (!feedback.correction.empty()) detail["correction"] = absl::Base64Escape(feedback.correction);
  Event event;
  event.kind = Kind::kFeedback;
  event.action = feedback.name;
  event.actor = feedback.key;
  event.subject = feedback.request;
  event.tenant = feedback.tenant;
  event.detail = conf::DumpJson(detail);
  return event;
}

absl::StatusOr<Feedback> FeedbackOf(const Record& record) {
  const Detail detail = Detail::parse(record.detail, nullptr, false);
  const auto value = detail.is_object() ? detail.find("value") : detail.end();
  if (record.kind != Kind::kFeedback || !detail.is_object() || value == detail.end())
    return absl::InvalidArgumentError("the record is not feedback: its detail has no value");
  Feedback feedback;
  if (value->is_boolean()) {
    feedback.value = value->get<bool>();
  } else if (value->is_number()) {
    feedback.value = value->get<double>();
  } else if (value->is_string()) {
    feedback.value = value->get<std::string>();
  } else {
    return absl::InvalidArgumentError(
        "the record is not feedback: its value must be a boolean, a number or a text");
  }
  feedback.name = record.action;
  feedback.request = record.subject;
  feedback.tenant = record.tenant;
  feedback.key = record.actor;
  feedback.model = TextIn(detail, "model");
  feedback.version = TextIn(detail, "version");
  feedback.replica = TextIn(detail, "replica");
  feedback.settled = detail.value("settled", true);
  feedback.known_to = detail.value("known_to", uint64_t{0});
  feedback.content_key = TextIn(detail, "content_key");
  feedback.comment = BytesIn(detail, "comment");
  feedback.correction = BytesIn(detail, "correction");
  return feedback;
}

}  // namespace gateway::ledger
