#include "gateway/request/stream_tally.h"

#include <cstring>

#include "conf/find.h"
#include "gateway/api/answer_member.h"
#include "gateway/api/chat.h"
#include "gateway/api/usage_scan.h"
#include "gateway/net/sse.h"

namespace gateway {

namespace {

// When asked for usage, engines end every event of a chat like this, except the event that reports it.
constexpr std::string_view kNoUsageYet = ",\"usage\":null}";

api::StripPlan StripNoUsageYet(const net::SseEvent& event) {
  const char* end = event.data.data() + event.data.size();
  return {.offset = static_cast<size_t>(end - event.raw.data()) - kNoUsageYet.size(),
          .length = kNoUsageYet.size() - 1};
}

// Almost every event of a chat has `"finish_reason":null`.
bool MayFinish(std::string_view data) {
  constexpr std::string_view kKey = "\"finish_reason\":";
  for (size_t at = conf::Find(data, kKey); at != std::string_view::npos;) {
    const std::string_view value = data.substr(at + kKey.size());
    if (!value.starts_with("null") && !value.starts_with(" null")) return true;
    const size_t next = conf::Find(value, kKey);
    if (next == std::string_view::npos) return false;
    at += kKey.size() + next;
  }
  return false;
}

// Providers that fail in the middle report the error in a chunk; others write a null there.
bool TellsError(std::string_view data) {
  return conf::Contains(data, "\"error\"") && api::ReportedError(data).has_value();
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

TextCount::Form StreamTally::FormOf(router::Api api) {
  switch (DialectOf(api)) {
    case Dialect::kMessages:
      return TextCount::Form::kMessages;
    case Dialect::kResponses:
      return TextCount::Form::kResponses;
    case Dialect::kChat:
    case Dialect::kOther:
      break;
  }
  return TextCount::Form::kChat;
}

size_t StreamTally::Pass(char* data, size_t n) {
  std::string_view left(data, n);
  size_t kept = 0;
  while (!left.empty()) {
    const net::SseEvent event = net::NextSseEvent(left);
    api::StripPlan plan;
    if (event.has_data) {
      const bool none_yet = !event.multi_line && event.data.ends_with(kNoUsageYet);
      const std::string_view whole = net::WholeData(event, joined_);
      const bool same = text_.Add(whole);
      if (!same) tells_usage_ = !none_yet && conf::Contains(whole, "\"usage\"");
      const bool tells_usage = tells_usage_;
      ReadData(NameOf(event.name, whole, same), whole, tells_usage, same);
      if (hide_cached_ && !same) tells_timings_ = conf::Contains(whole, "\"timings\"");
      if (hide_cached_ && (tells_usage || tells_timings_)) {
        api::UsageScan hider(true);
        const auto hide = [&](std::string_view line) {
          hider.Pass(data + (line.data() - data), line.size());
        };
        if (event.multi_line) {
          for (const std::string_view line : net::DataLines(event.raw)) hide(line);
        } else {
          hide(event.data);
        }
      }
      if (unclear_failure_ && whole == "[DONE]") plan.drop_event = true;  // clients read nothing after it
      if (hide_usage_) {
        if (none_yet) {
          plan = StripNoUsageYet(event);
        } else if (tells_usage) {
          plan = api::StripUsage(event.raw);
        }
      }
    }
    if (plan.drop_event) continue;
    const size_t at = static_cast<size_t>(event.raw.data() - data);
    const size_t head = plan.length > 0 ? plan.offset : event.raw.size();
    if (kept != at) std::memmove(data + kept, data + at, head);
    kept += head;
    if (plan.length > 0) {
      const size_t tail = event.raw.size() - plan.offset - plan.length;
      std::memmove(data + kept, data + at + plan.offset + plan.length, tail);
      kept += tail;
    }
  }
  return kept;
}

std::string_view StreamTally::NameOf(std::string_view event, std::string_view data, bool same) {
  const bool named = dialect_ == Dialect::kMessages || dialect_ == Dialect::kResponses;
  if (!event.empty() || !named) return event;
  if (!same) {
    const auto type = api::FindAnswerMember(data, "type");
    type_ = type && type->size >= 2 ? type->In(data).substr(1, type->size - 2) : std::string_view();
  }
  return type_;
}

void StreamTally::ReadData(std::string_view event, std::string_view data, bool tells_usage, bool same) {
  if (dialect_ == Dialect::kChat && data == "[DONE]") {
    finished_ = true;
    return;
  }
  ++events_;
  switch (dialect_) {
    case Dialect::kChat:
      if (!failed_ && (event == "error" || (!same && TellsError(data)))) {
        failed_ = true;
        if (!api::IsErrorOf(api::Protocol::kOpenAi, data))
          unclear_failure_ = api::FromUpstream(api::Info(api::Code::kUpstreamError).status, data);
      }
      if (!same) may_finish_ = MayFinish(data);
      if (may_finish_) finish_ = api::FinishFromJson(data);
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
      if (event == "response.output_item.done") text_.AddItem(data);
      if (finished_ || failed_) text_.AddOutput(data);
      break;
    case Dialect::kOther:
      break;
  }
  if (tells_usage) {
    if (const std::optional<api::Usage> usage = api::UsageFromJson(data)) {
      // Messages reports the input at the start and the output at the end; some engines repeat a part of the input.
      const api::Usage before = usage_.value_or(api::Usage());
      // An empty report takes nothing back.
      if (dialect_ != Dialect::kMessages && usage->input == 0 && usage->output == 0 && before.output > 0)
        return;
      usage_ = usage;
      reports_end_ = reports_end_ || event == "message_delta";
      if (usage_->input < before.input) {
        usage_->input = before.input;
        usage_->cached_input = before.cached_input;
        usage_->cache_written = before.cache_written;
      }
    }
  }
}

}  // namespace gateway
