// OnBehalf: for whom the gateway sends a request into itself: a caller of the admin API, or the owner of a
// batch.
//
// The admin API has authenticated its caller; the key of a batch was authenticated when it was created, and is
// looked up again for each line. The request reaches a shard on one end of a pair of sockets inside this
// process, with this beside it; so there is no credential that somebody could steal, guess or log. The
// pipeline runs as for any other request, for the named tenant.
//
// Owner: the coroutine that serves the request. Thread: its shard's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "gateway/ledger/record.h"

namespace gateway {

// How such a request ended, as the ledger has it. Times are microseconds; -1: not known.
struct EndedRequest {
  std::string request = {};  // its id
  std::string replica = {};  // empty: none has served
  std::string error = {};    // code; empty: none
  ledger::EndReason reason = ledger::EndReason::kDone;
  ledger::Counts counts = {};
  int64_t queue_us = -1;
  int64_t total_us = -1;
};

struct OnBehalf {
  std::string tenant;   // its path
  std::string actor;    // takes the place of a key's id in the ledger: "person:corp:ada"
  std::string address;  // of the caller
  // Called once: when the request is settled, or with nothing when it was not served.
  std::function<void(std::optional<EndedRequest>)> ended;
  // A line of a batch: `actor` is the key (or the bearer of a token) that created it, and may be empty: the
  // anonymous tenant.
  bool of_batch = false;

  void Tell(std::optional<EndedRequest> how) {
    if (const auto tell = std::exchange(ended, nullptr)) tell(std::move(how));
  }
};

}  // namespace gateway
