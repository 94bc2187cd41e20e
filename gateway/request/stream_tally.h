// StreamTally: reads the events of a streamed answer as they pass. It counts them, keeps the usage that the engine
// reports, removes usage that the client did not ask for, and knows whether the stream has ended according to its
// protocol.
//
// Works in place on whole events. Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/error.h"
#include "gateway/api/usage.h"
#include "gateway/request/text_count.h"
#include "router/facts/api.h"

namespace gateway {

class StreamTally {
 public:
  // `hide_usage`: the gateway asked the engine for usage, and the client did not.
  // `hide_cached`: the client must not learn how many tokens of its prompt were cached.
  StreamTally(router::Api api, bool hide_usage, bool hide_cached = false)
      : dialect_(DialectOf(api)), hide_usage_(hide_usage), hide_cached_(hide_cached), text_(FormOf(api)) {}

  // Where answers of an API have their text.
  static TextCount::Form FormOf(router::Api api);

  // Reads the whole events at data[0, n), removes what is hidden, and returns the number of remaining bytes.
  size_t Pass(char* data, size_t n);

  // Whether the marker or event that ends a whole stream of this protocol has passed.
  bool finished() const { return finished_; }
  // Whether the engine reported an error in the stream.
  bool failed() const { return failed_; }
  // That error, if clients of chat would not take its event for one.
  const std::optional<api::ApiError>& unclear_failure() const { return unclear_failure_; }
  // Whether the protocol has such a marker. If so, an answer without it is not whole.
  bool needs_marker() const { return dialect_ != Dialect::kOther; }

  uint64_t events() const { return events_; }  // with data; markers do not count
  // The visible text of all choices.
  const TextCount& text() const { return text_; }
  const std::optional<api::Usage>& usage() const { return usage_; }
  // Whether usage() includes the output: Messages reports the input first, and the output at the end.
  bool output_reported() const {
    return usage_ && (dialect_ != Dialect::kMessages || (reports_end_ && finish_ != api::Finish::kNone));
  }
  api::Finish finish() const { return finish_; }

 private:
  enum class Dialect : uint8_t { kChat, kMessages, kResponses, kOther };
  static Dialect DialectOf(router::Api api);

  // The name of an event, or what its data says that it is.
  std::string_view NameOf(std::string_view event, std::string_view data, bool same);
  void ReadData(std::string_view event, std::string_view data, bool tells_usage, bool same);

  const Dialect dialect_;
  const bool hide_usage_;
  const bool hide_cached_;
  TextCount text_;
  // Of the last event:
  bool tells_usage_ = false;
  bool tells_timings_ = false;  // only if `hide_cached_`
  bool may_finish_ = false;
  std::string type_;  // if it has no name
  bool finished_ = false;
  bool failed_ = false;
  std::optional<api::ApiError> unclear_failure_;
  uint64_t events_ = 0;
  std::optional<api::Usage> usage_;
  bool reports_end_ = false;  // usage_ is of an event after the start; only of Messages
  api::Finish finish_ = api::Finish::kNone;
  std::string joined_;  // the data of an event with several lines
};

}  // namespace gateway
