// Timeline: a request's deadlines, and the moments from which its durations are computed.
#pragma once

#include <chrono>
#include <optional>

#include "conf/time.h"

namespace gateway {

// Whether a moment of a Timeline is set.
inline bool Happened(conf::TimePoint t) {
  return t != conf::TimePoint();
}

// A zero moment has not happened yet.
struct Timeline {
  conf::TimePoint started;      // the head was read
  conf::TimePoint queued;       // admission began
  conf::TimePoint dispatched;   // admission ended: a replica is chosen, or the wait failed
  conf::TimePoint sent;         // the upstream request was written
  conf::TimePoint answered;     // the upstream's head was read
  conf::TimePoint first_token;  // the first event, or the whole answer, was read
  conf::TimePoint last_token;
  conf::TimePoint ended;
  conf::Duration max_gap{};        // between two events
  conf::Duration upstream_wait{};  // spent waiting for heads of upstream answers, retries included
  conf::Duration prefill{};        // spent waiting for another replica to compute the prompt
  conf::Duration body_wait{};      // spent waiting for the client's body

  std::optional<conf::TimePoint> deadline;  // for the first byte: the client's deadline, or `until`
  conf::TimePoint until;                    // for the whole answer: set by the configuration

  conf::Duration QueueTime() const { return dispatched - queued; }
  // The gateway's own share of the time until `now`.
  conf::Duration Overhead(conf::TimePoint now) const {
    return now - started - body_wait - QueueTime() - upstream_wait - prefill;
  }
  // The gateway's own share of the time until the request was written.
  conf::Duration OverheadBeforeSend() const { return sent - started - body_wait - prefill - QueueTime(); }
};

inline int64_t ToMicros(conf::Duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace gateway
