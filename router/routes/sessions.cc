#include "router/routes/sessions.h"

#include <algorithm>

namespace router {

Sessions::Sessions(size_t capacity) : sets_(std::max<size_t>(1, capacity / (kStripes * kWays))) {}

std::optional<uint64_t> Sessions::Find(uint64_t session, conf::TimePoint now, conf::Duration ttl) const {
  const Stripe& stripe = StripeOf(session);
  const std::lock_guard lock(stripe.mutex);
  if (stripe.sets.empty()) return std::nullopt;
  for (const Entry& entry : stripe.sets[SetOf(session)]) {
    if (entry.session != session || entry.used == conf::TimePoint()) continue;
    return now - entry.used <= ttl ? std::optional(entry.replica) : std::nullopt;
  }
  return std::nullopt;
}

void Sessions::Remember(uint64_t session, uint64_t replica, conf::TimePoint now) {
  Stripe& stripe = stripes_[session % kStripes];
  const std::lock_guard lock(stripe.mutex);
  if (stripe.sets.empty()) stripe.sets.resize(sets_);
  Set& set = stripe.sets[SetOf(session)];
  auto at = std::ranges::find_if(
      set, [&](const Entry& e) { return e.session == session && e.used != conf::TimePoint(); });
  if (at == set.end()) at = std::ranges::min_element(set, {}, &Entry::used);
  *at = {session, replica, now};
}

size_t Sessions::bytes() const {
  size_t bytes = 0;
  for (const Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    bytes += stripe.sets.size() * sizeof(Set);
  }
  return bytes;
}

}  // namespace router
