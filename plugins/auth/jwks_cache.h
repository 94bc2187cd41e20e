// When to fetch an issuer's key set, and how long to believe the last one: a state machine without I/O.
//
// The owner asks Next(now), does the fetch itself and reports Loaded, Unchanged or Failed. A failed fetch, or
// a document without a usable key, never takes the last good set away; age does (max_staleness), so that a
// withdrawn key cannot verify for ever behind a broken network.
//
// Thread: one (the control thread); what it publishes is immutable and goes to the shards.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "plugins/auth/digest.h"
#include "plugins/auth/jwks.h"

namespace plugins::auth {

struct JwksPolicy {
  conf::Duration refresh = std::chrono::minutes(10);
  conf::Duration first_backoff = std::chrono::seconds(1);  // after a failure; doubles up to the next
  conf::Duration max_backoff = std::chrono::minutes(5);
  conf::Duration unknown_kid_interval = std::chrono::seconds(30);  // least time between fetches for a new kid
  conf::Duration max_staleness = std::chrono::hours(24);           // since the last good fetch
  conf::Duration fetch_timeout = std::chrono::seconds(10);         // an unreported fetch counts as failed
};

// The keys with which shards verify. `generation` changes when the keys change, and only then.
struct PublishedKeys {
  std::shared_ptr<const JwkSet> keys;  // null: there are none yet
  uint64_t generation = 0;
  conf::TimePoint usable_until;  // first moment at which they are too old to be believed
};

class JwksCache {
 public:
  explicit JwksCache(const JwksPolicy& policy) : policy_(policy) {}

  // From the next step on; what is known stays.
  void SetPolicy(const JwksPolicy& policy);

  struct Step {
    bool fetch = false;      // start one now, and report how it ended
    conf::TimePoint ask_at;  // when to call again, if nothing is reported before
  };
  Step Next(conf::TimePoint now);

  // The document as it came; an error says why it was not taken (it then counts as failed).
  absl::Status Loaded(std::string_view text, conf::TimePoint now);
  // The source says that what was loaded last still holds (304, or a file that has not changed).
  void Unchanged(conf::TimePoint now);
  void Failed(std::string_view why, conf::TimePoint now);
  // A token named a key that the set does not hold: fetch soon, though not more often than the policy says.
  void UnknownKid(conf::TimePoint now);

  const PublishedKeys& Published() const { return published_; }
  const std::string& last_error() const { return last_error_; }  // empty after a success
  uint32_t failures_in_row() const { return failures_; }
  uint64_t failures() const { return all_failures_; }
  std::optional<conf::TimePoint> last_good() const { return last_good_; }  // fetch, or look at the file

 private:
  void Succeeded(conf::TimePoint now);

  JwksPolicy policy_;
  PublishedKeys published_;
  Digest document_{};
  std::optional<conf::TimePoint> next_fetch_;  // none: at once
  std::optional<conf::TimePoint> in_flight_until_;
  std::optional<conf::TimePoint> last_start_;
  std::optional<conf::TimePoint> last_good_;
  uint32_t failures_ = 0;
  uint64_t all_failures_ = 0;
  std::string last_error_;
};

}  // namespace plugins::auth
