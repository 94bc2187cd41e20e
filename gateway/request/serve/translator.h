// Translator: translates the answer of a replica that speaks chat completions to the client's protocol.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/api/chat.h"
#include "gateway/api/usage_counts.h"
#include "gateway/request/outgoing_request.h"
#include "gateway/request/serve/upstream.h"

namespace gateway {

class StreamTranslator {
 public:
  virtual ~StreamTranslator() = default;
  virtual void OnData(std::string_view chunk, std::string& out) = 0;
  // `counted`: the tokens that the ledger will have. The client is told them, whatever the engine reported.
  virtual void OnDone(std::string& out, const api::Usage& counted) = 0;
  virtual void OnError(const api::ApiError& error, std::string& out) = 0;
  virtual api::StreamState state() const = 0;
};

// For an upstream whose Carry is a translation. `started`: when the request arrived.
std::unique_ptr<StreamTranslator> MakeStreamTranslator(const OutgoingRequest& request,
                                                       conf::TimePoint started, const Upstream& upstream);

// Translates a whole answer. `counted`: as above.
api::Translated<std::string> TranslateAnswer(const OutgoingRequest& request, conf::TimePoint started,
                                             const Upstream& upstream, std::string_view chat,
                                             const api::Usage& counted);

}  // namespace gateway
