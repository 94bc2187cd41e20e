#include "router/load/spare_room.h"

#include <algorithm>

namespace router {
namespace {

constexpr double kQuiet = 0.001;      // seconds: less to compute is none
constexpr double kKeptPlaces = 0.25;  // part of them
constexpr double kKeptKv = 0.3;       // part of it: it fills up while answers grow
// The time between tokens is known when an answer ends. So with a bound, requests may grow by so much beyond those that the
// last answers met, and by one, before the next ones tell.
constexpr double kGrowth = 1.25;
// Where neither the operator nor the engine says how many requests it runs; as for the `cost` policy.
constexpr double kUsualPlaces = 256;

double PlacesOf(const ObservedSignals& seen, const HeadroomLimits& limits) {
  double places = limits.max_running > 0 ? limits.max_running : seen.max_running;
  if (seen.observed_batch_limit > 0)
    places = places > 0 ? std::min(places, seen.observed_batch_limit) : seen.observed_batch_limit;
  return places > 0 ? places : kUsualPlaces;
}

bool TokensComeInTime(const ReplicaSignals& s, conf::Duration limit) {
  if (limit <= conf::Duration::zero()) return true;
  return s.token_time <= conf::ToSeconds(limit) && s.requests + 1 <= kGrowth * s.token_requests + 1;
}

}  // namespace

bool HasSpareRoom(const ReplicaSignals& s, const ObservedSignals& seen, const HeadroomLimits& limits) {
  if (s.requests < 1) return true;
  if (s.backlog > kQuiet * s.prefill_rate) return false;
  return s.kv_use < 1 - kKeptKv && s.requests + 1 <= (1 - kKeptPlaces) * PlacesOf(seen, limits) &&
         TokensComeInTime(s, limits.spare_token_time);
}

}  // namespace router
