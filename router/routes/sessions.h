// The replica that served each session last, so that its next request goes there too.
//
// A table of eight-way sets with a fixed number of entries; memory is allocated one stripe at a time, when
// first used. A new session displaces the least recently used of its set, which then starts again like an
// expired one. Process-wide; callable from every shard, one short lock a call.
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
  // the client's name for it, of its model and of its tenant.
  std::optional<uint64_t> Find(uint64_t session, conf::TimePoint now, conf::Duration ttl) const;

  void Remember(uint64_t session, uint64_t replica, conf::TimePoint now);

  size_t bytes() const;  // allocated

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kStripes = 64;

  struct Entry {
    uint64_t session = 0;
    uint64_t replica = 0;
    conf::TimePoint used{};  // zero: the entry is free
  };
  using Set = std::array<Entry, kWays>;
  struct alignas(64) Stripe {
    mutable std::mutex mutex;  // guards `sets`
    std::vector<Set> sets;     // empty until the first Remember
  };

  const Stripe& StripeOf(uint64_t hash) const { return stripes_[hash % kStripes]; }
  size_t SetOf(uint64_t hash) const { return (hash / kStripes) % sets_; }

  const size_t sets_;  // per stripe
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace router
