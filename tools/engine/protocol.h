// Protocol: how one text API writes a job, as a stream of events or as one body. Its state is in the job.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "tools/engine/job.h"

namespace tidegate_engine {

// Bytes for the wire: each event is an HTTP chunk of its own, like an engine that flushes every token.
class Events {
 public:
  // The payload of the next event; valid until End().
  std::string& Begin() {
    event_.clear();
    return event_;
  }
  void End() { Frame(event_); }
  // `event: NAME` and `data: PAYLOAD`.
  void Named(std::string_view name, std::string_view payload) {
    fmt::format_to(std::back_inserter(Begin()), "event: {}\ndata: {}\n\n", name, payload);
    End();
  }
  void Frame(std::string_view chunk) {
    fmt::format_to(std::back_inserter(bytes_), "{:x}\r\n", chunk.size());
    bytes_.append(chunk).append("\r\n");
  }
  void Raw(std::string_view bytes) { bytes_ += bytes; }
  void Last() { bytes_ += "0\r\n\r\n"; }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  void Clear() { bytes_.clear(); }

 private:
  std::string bytes_;
  std::string event_;
};

struct Protocol {
  std::string_view id_prefix;
  // Called before the first token; after token `choice.sent`, which was just generated; after the last token.
  void (*open)(Job& job, Events& out);
  void (*token)(Job& job, size_t choice, Events& out);
  void (*close)(Job& job, Events& out);
  std::string (*body)(Job& job);
};

const Protocol& ProtocolOf(Api api);

extern const Protocol kChatProtocol;
extern const Protocol kCompletionsProtocol;
extern const Protocol kResponsesProtocol;
extern const Protocol kMessagesProtocol;

// stop, length, tool_calls.
std::string_view FinishName(Finish finish);

}  // namespace tidegate_engine
