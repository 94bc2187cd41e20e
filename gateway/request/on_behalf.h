// OnBehalf: the caller of the admin API, or the owner of a batch, for whom the gateway sends a request to itself.
//
// The admin API has authenticated its caller. The key of a batch was authenticated when the batch was created,
// and is looked up again for each line. The request reaches a shard through a pair of sockets inside this
// process, together with this object. So it needs no credential that somebody could steal, guess or log. The
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

// How such a request ended, as the ledger records it. Times are microseconds; -1: not known.
struct EndedRequest {
  std::string request = {};  // its id
  std::string replica = {};  // empty: no replica served it
  std::string error = {};    // its code; empty: no error
  ledger::EndReason reason = ledger::EndReason::kDone;
  ledger::Counts counts = {};
  int64_t queue_us = -1;
  int64_t total_us = -1;
};

struct OnBehalf {
  std::string tenant;   // its path
  std::string actor;    // takes the place of a key's id in the ledger: "person:corp:ada"
  std::string address;  // of the caller
  // Called once: with the result when the request is settled, or with nothing if it was not served.
  std::function<void(std::optional<EndedRequest>)> ended;
  // A line of a batch. `actor` is then the key, or the bearer of the token, that created the batch; empty: the
  // anonymous tenant created it.
  bool of_batch = false;

  void Tell(std::optional<EndedRequest> how) {
    if (const auto tell = std::exchange(ended, nullptr)) tell(std::move(how));
  }
};

}  // namespace gateway
