// Sink: where audit records are delivered to, beside the ledger.
//
// Deliver() is called again with the same records, or some of them together with others, until it has
// succeeded: a reader of a sink may see a record twice, and recognizes it by its sequence number. Thread: the
// loop's; one Deliver() at a time. Owner: the delivery; destroyed when no Deliver() is pending.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <string>

#include "conf/time.h"
#include "gateway/net/task.h"

namespace plugins::sinks {

struct Record {
  uint64_t seq = 0;    // grows by one
  conf::TimePoint at;  // when it was written
  std::string line;    // without a line end
  std::string link{};  // of the hash chain, in hex: another ledger's record of this number has another one
};

struct BatchLimits {
  size_t records = 500;
  size_t bytes = 1u << 20;  // of lines; one record may be larger
};

// For `until` below: the sink's own time-out alone.
inline constexpr conf::TimePoint kOwnTimeout = conf::TimePoint::max();

class Sink {
 public:
  virtual ~Sink() = default;

  // For people: `webhook https://siem.example/in`. No secrets.
  virtual std::string Describe() const = 0;
  virtual BatchLimits limits() const = 0;

  // OK: all are delivered. kResourceExhausted: the batch is too large; send fewer. A peer may take
  // until `until`, or as long as the sink's own time-out where that ends earlier.
  virtual gateway::net::Task<absl::Status> Deliver(std::span<const Record> batch, conf::TimePoint until) = 0;

  // Ends a pending Deliver() early where it can; a time-out bounds the rest.
  virtual void Close() {}
};

}  // namespace plugins::sinks
