#include "router/routes/canary.h"

#include <xxhash.h>

namespace router {

TrackId TrackFor(std::span<const Canary> canaries, uint64_t key) {
  // The key is hashed again, because it also decides other choices, and those must not correlate with this
  // one.
  const double at = static_cast<double>(XXH3_64bits(&key, sizeof key) >> 11) * 0x1p-53 * 100;
  double end = 0;
  for (const Canary& canary : canaries) {
    end += canary.percent;
    if (at < end) return canary.track;
  }
  return kStable;
}

}  // namespace router
