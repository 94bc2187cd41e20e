// AnswerReader: makes an Answer of the head and the payload of an OpenAI-style response, whole or streamed,
// as it comes. Counts for itself: shares no code with what the gateway meters by, so that the two can be
// compared.
#pragma once

#include <string>
#include <string_view>

#include "bench/client/answer.h"
#include "gateway/net/http/head.h"
#include "gateway/net/sse.h"

namespace bench {

class AnswerReader {
 public:
  explicit AnswerReader(conf::TimePoint sent) : sent_(sent) {}

  void OnHead(const gateway::net::http::Head& head, conf::TimePoint now);

  // All payload that has not been taken yet; how much of it is taken.
  size_t OnPayload(std::string_view payload, conf::TimePoint now);

  // The response is whole.
  void OnEnd(conf::TimePoint now);
  void OnFailure(Ending ending, conf::TimePoint now);

  const Answer& answer() const { return answer_; }
  Answer Take() { return std::move(answer_); }

 private:
  void OnEvent(const gateway::net::SseEvent& parsed);
  void ReadError(std::string_view json);

  static constexpr size_t kMaxKept = 16u << 20;

  conf::TimePoint sent_;
  conf::TimePoint last_event_;
  gateway::net::SseFramer framer_;
  std::string body_;  // of an answer that is no stream
  bool streamed_ = false;
  bool marked_ = false;  // [DONE] has come
  bool failed_ = false;
  Answer answer_;
};

}  // namespace bench
