// Translator: a chat stream told in the client's protocol, whichever of the two it is.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/api/chat.h"
#include "gateway/exchange.h"

namespace gateway {

class Upstream;

class StreamTranslator {
 public:
  virtual ~StreamTranslator() = default;
  virtual void OnData(std::string_view chunk, std::string& out) = 0;
  virtual void OnDone(std::string& out) = 0;
  virtual void OnError(const api::ApiError& error, std::string& out) = 0;
  virtual api::StreamState state() const = 0;
};

// For an upstream whose Carry is a translation.
std::unique_ptr<StreamTranslator> MakeStreamTranslator(const Exchange& x, const Upstream& upstream);

// A whole answer, translated.
api::Translated<std::string> TranslateAnswer(const Exchange& x, const Upstream& upstream,
                                             std::string_view chat);

}  // namespace gateway
