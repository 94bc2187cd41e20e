#include "gateway/stream_tally.h"

#include <cstring>

#include "gateway/net/sse.h"

namespace gateway {
namespace {

bool Contains(std::string_view text, std::string_view needle) {
  return memmem(text.data(), text.size(), needle.data(), needle.size()) != nullptr;
}

}  // namespace

StreamTally::Dialect StreamTally::DialectOf(router::Api api) {
  switch (api) {
    case router::Api::kChatCompletions:
    case router::Api::kCompletions:
      return Dialect::kChat;
    case router::Api::kMessages:
      return Dialect::kMessages;
    case router::Api::kResponses:
      return Dialect::kResponses;
    default:
      return Dialect::kOther;
  }
}

size_t StreamTally::Pass(char* data, size_t n) {
  std::string_view left(data, n);
  size_t kept = 0;
  while (!left.empty()) {
    const std::string_view event = net::NextSseEvent(left);
    api::StripPlan plan;
    const net::SseEvent parsed = net::ParseSseEvent(event);
    if (parsed.has_data) {
      ReadData(parsed.name, parsed.data);
      if (hide_usage_ && Contains(event, "\"usage\"")) plan = api::StripUsage(event);
    }
    if (plan.drop_event) continue;
    const size_t at = static_cast<size_t>(event.data() - data);
    const size_t head = plan.length > 0 ? plan.offset : event.size();
    if (kept != at) std::memmove(data + kept, data + at, head);
    kept += head;
    if (plan.length > 0) {
      const size_t tail = event.size() - plan.offset - plan.length;
      std::memmove(data + kept, data + at + plan.offset + plan.length, tail);
      kept += tail;
    }
  }
  return kept;
}

void StreamTally::ReadData(std::string_view event, std::string_view data) {
  if (dialect_ == Dialect::kChat && data == "[DONE]") {
    finished_ = true;
    return;
  }
  ++events_;
  switch (dialect_) {
    case Dialect::kChat:
      failed_ = failed_ || data.starts_with("{\"error\"") || event == "error";
      if (Contains(data, "\"finish_reason\":\"") || Contains(data, "\"finish_reason\": \"")) {
        finish_ = api::FinishFromJson(data);
      }
      break;
    case Dialect::kMessages:
      finished_ = finished_ || event == "message_stop";
      failed_ = failed_ || event == "error";
      if (event == "message_delta") finish_ = api::FinishFromJson(data);
      break;
    case Dialect::kResponses:
      failed_ = failed_ || event == "response.failed" || event == "error";
      if (event == "response.completed" || event == "response.incomplete") {
        finished_ = true;
        finish_ = api::FinishFromJson(data);
      }
      break;
    case Dialect::kOther:
      break;
  }
  if (Contains(data, "\"usage\"")) {
    if (const std::optional<api::Usage> usage = api::UsageFromJson(data)) {
      // Messages tells the input at the start and the output at the end.
      const uint64_t input = usage_ ? usage_->input : 0;
      const uint64_t cached = usage_ ? usage_->cached_input : 0;
      usage_ = usage;
      if (usage_->input == 0) {
        usage_->input = input;
        usage_->cached_input = cached;
      }
    }
  }
}

}  // namespace gateway
