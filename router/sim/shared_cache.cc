#include "router/sim/shared_cache.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <list>

namespace router::sim {

double SharedCacheHitRatio(std::span<const Request> requests, uint64_t blocks) {
  std::list<uint64_t> order;  // newest first
  absl::flat_hash_map<uint64_t, std::list<uint64_t>::iterator> places;
  uint64_t tokens = 0;
  uint64_t hits = 0;
  for (const Request& request : requests) {
    tokens += request.prompt_tokens;
    size_t matched = 0;
    while (matched < request.blocks.size() && places.contains(request.blocks[matched])) ++matched;
    hits += std::min<uint64_t>(matched * kBlockTokens, request.prompt_tokens - 1);
    // The last block first, so that it is the older one.
    for (size_t i = request.blocks.size(); i-- > 0;) {
      const auto [place, fresh] = places.try_emplace(request.blocks[i]);
      if (!fresh) order.erase(place->second);
      order.push_front(request.blocks[i]);
      place->second = order.begin();
    }
    while (order.size() > blocks) {
      places.erase(order.back());
      order.pop_back();
    }
  }
  return tokens == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(tokens);
}

}  // namespace router::sim
