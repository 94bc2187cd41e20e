#include "bench/client/answer_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "conf/words.h"

namespace bench {
namespace {

namespace net = gateway::net;
using Json = nlohmann::json;

uint64_t Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::optional<conf::Duration> DurationOf(std::string_view text, conf::Duration unit) {
  const std::optional<uint32_t> number = conf::ReadNumber<uint32_t>(text);
  return number ? std::optional(*number * unit) : std::nullopt;
}

std::optional<Usage> ReadUsage(const Json& body) {
  const auto usage = body.is_object() ? body.find("usage") : body.end();
  if (usage == body.end() || !usage->is_object()) return std::nullopt;
  Usage read{.input = Number(*usage, "prompt_tokens"), .output = Number(*usage, "completion_tokens")};
  if (const auto details = usage->find("prompt_tokens_details");
      details != usage->end() && details->is_object()) {
    read.cached = Number(*details, "cached_tokens");
  }
  return read;
}

bool Has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

constexpr conf::Word<Ending> kEndings[] = {
    {"done", Ending::kDone},
    {"refused", Ending::kRefused},
    {"not_reached", Ending::kNotReached},
    {"cut", Ending::kCut},
    {"unclean", Ending::kUnclean},
    {"failed_in_stream", Ending::kFailed},
    {"timed_out", Ending::kTimedOut},
    {"malformed", Ending::kMalformed},
};

}  // namespace

std::string_view Name(Ending ending) {
  return conf::WordOf(kEndings, ending);
}

void AnswerReader::OnHead(const net::http::Head& head, conf::TimePoint now) {
  answer_.status = head.status;
  answer_.to_first = now - sent_;
  answer_.limit = head.Find("x-tidegate-limit");
  const std::string_view should = head.Find("x-should-retry");
  if (should == "true" || should == "false") answer_.should_retry = should == "true";
  answer_.retry_after = DurationOf(head.Find("retry-after-ms"), std::chrono::milliseconds(1));
  if (!answer_.retry_after)
    answer_.retry_after = DurationOf(head.Find("retry-after"), std::chrono::seconds(1));
  streamed_ = head.status == 200 && head.Find("content-type").starts_with("text/event-stream");
}

size_t AnswerReader::OnPayload(std::string_view payload, conf::TimePoint now) {
  if (!streamed_) {
    body_.append(payload.substr(0, kMaxKept - std::min(kMaxKept, body_.size())));
    return payload.size();
  }
  const size_t whole = framer_.Whole(payload);
  if (whole == 0) return 0;
  framer_.Taken(whole);
  if (answer_.events == 0) {
    answer_.to_first = now - sent_;
  } else {
    answer_.max_gap = std::max(answer_.max_gap, now - last_event_);
  }
  last_event_ = now;
  std::string_view events = payload.substr(0, whole);
  const uint64_t before = answer_.events;
  while (!events.empty()) OnEvent(net::NextSseEvent(events));
  if (answer_.events > before) answer_.to_last = now - sent_;
  return whole;
}

void AnswerReader::OnEvent(const net::SseEvent& parsed) {
  if (!parsed.has_data) return;
  if (parsed.data == "[DONE]") {
    marked_ = true;
    return;
  }
  ++answer_.events;
  if (parsed.data.starts_with("{\"error\"")) {
    failed_ = true;
    ReadError(parsed.data);
  } else if (Has(parsed.data, "\"usage\":{") || Has(parsed.data, "\"usage\": {")) {
    if (const auto usage = ReadUsage(conf::ParseJson(parsed.data))) answer_.usage = usage;
  }
}

void AnswerReader::ReadError(std::string_view json) {
  const Json body = conf::ParseJson(json);
  const auto error = body.is_object() ? body.find("error") : body.end();
  if (error == body.end() || !error->is_object()) return;
  if (const auto code = error->find("code"); code != error->end() && code->is_string()) answer_.code = *code;
}

void AnswerReader::OnEnd(conf::TimePoint now) {
  answer_.total = now - sent_;
  if (answer_.status / 100 != 2) {
    answer_.ending = Ending::kRefused;
    ReadError(body_);
  } else if (streamed_) {
    answer_.ending = failed_ ? Ending::kFailed : marked_ ? Ending::kDone : Ending::kUnclean;
  } else {
    const Json body = conf::ParseJson(body_);
    answer_.ending = body.is_object() ? Ending::kDone : Ending::kMalformed;
    answer_.usage = ReadUsage(body);
  }
}

void AnswerReader::OnFailure(Ending ending, conf::TimePoint now) {
  answer_.total = now - sent_;
  answer_.ending = ending;
}

}  // namespace bench
