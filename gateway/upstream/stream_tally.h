// StreamTally: reads the events of a streamed answer as they pass: counts them, takes the usage that the
// engine reports, hides what the client did not ask for, and knows whether the stream has ended as its
// protocol says.
//
// Works in place on whole events. Thread: the exchange's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/api/usage.h"
#include "router/api.h"

namespace gateway {

class StreamTally {
 public:
  // `hide_usage`: we asked the engine for usage and the client did not.
  StreamTally(router::Api api, bool hide_usage) : dialect_(DialectOf(api)), hide_usage_(hide_usage) {}

  // Reads whole events at data[0, n) and returns how many bytes are left of them when what is to be hidden
  // has been cut out.
  size_t Pass(char* data, size_t n);

  // The marker or event with which a stream of this protocol ends cleanly has passed.
  bool finished() const { return finished_; }
  // The engine told of an error in the stream.
  bool failed() const { return failed_; }
  // Whether an answer without that marker can be whole: where the protocol has none.
  bool needs_marker() const { return dialect_ != Dialect::kOther; }

  uint64_t events() const { return events_; }  // that carried data, markers not counted
  const std::optional<api::Usage>& usage() const { return usage_; }
  // Whether usage() holds the output so far too: Messages begins with the input, and tells the output at the
  // end.
  bool output_told() const {
    return usage_ && (dialect_ != Dialect::kMessages || finish_ != api::Finish::kNone);
  }
  api::Finish finish() const { return finish_; }

 private:
  enum class Dialect : uint8_t { kChat, kMessages, kResponses, kOther };
  static Dialect DialectOf(router::Api api);

  void ReadData(std::string_view event, std::string_view data, bool tells_usage);

  const Dialect dialect_;
  const bool hide_usage_;
  bool finished_ = false;
  bool failed_ = false;
  uint64_t events_ = 0;
  std::optional<api::Usage> usage_;
  api::Finish finish_ = api::Finish::kNone;
};

}  // namespace gateway
