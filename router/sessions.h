// Where sessions were served last, so that their next request goes there too.
//
// A fixed number of entries, made a stripe at a time as they come to be needed: who is pushed out, the one
// unused for longest of eight, begins anew like one whose time has passed. Process-wide; callable from every
// shard, a short lock each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "conf/time.h"

namespace router {

class Sessions {
 public:
  static constexpr size_t kCapacity = size_t{1} << 18;  // 6 MiB

  explicit Sessions(size_t capacity = kCapacity);

  // The replica (ReplicaState::identity_hash) that `session` has used within `ttl`. A session is a hash of
  // what the client calls it, with its model and tenant.
  std::optional<uint64_t> Find(uint64_t session, conf::TimePoint now, conf::Duration ttl) const;

  void Remember(uint64_t session, uint64_t replica, conf::TimePoint now);

  size_t bytes() const;  // in use

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kStripes = 64;

  struct Entry {
    uint64_t session = 0;
    uint64_t replica = 0;
    conf::TimePoint used{};  // never: the entry is free
  };
  using Set = std::array<Entry, kWays>;
  struct alignas(64) Stripe {
    mutable std::mutex mutex;  // of what follows
    std::vector<Set> sets;     // empty until something is remembered
  };

  const Stripe& StripeOf(uint64_t hash) const { return stripes_[hash % kStripes]; }
  size_t SetOf(uint64_t hash) const { return (hash / kStripes) % sets_; }

  const size_t sets_;  // of a stripe
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace router
