// Translator: translates the answer of a replica that speaks chat completions to the client's protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/api/chat.h"
#include "gateway/request/outgoing_request.h"
#include "gateway/request/serve/upstream.h"

namespace gateway {

class StreamTranslator {
 public:
  virtual ~StreamTranslator() = default;
  virtual void OnData(std::string_view chunk, std::string& out) = 0;
  // `output_tokens_estimate`: of the text so far, for a protocol that always tells its usage.
  virtual void OnDone(uint64_t output_tokens_estimate, std::string& out) = 0;
  virtual void OnError(const api::ApiError& error, std::string& out) = 0;
  virtual api::StreamState state() const = 0;
};

// For an upstream whose Carry is a translation. `started`: when the request arrived.
std::unique_ptr<StreamTranslator> MakeStreamTranslator(const OutgoingRequest& request,
                                                       conf::TimePoint started, const Upstream& upstream);

// Translates a whole answer.
api::Translated<std::string> TranslateAnswer(const OutgoingRequest& request, conf::TimePoint started,
                                             const Upstream& upstream, std::string_view chat);

}  // namespace gateway
