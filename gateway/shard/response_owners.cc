#include "gateway/shard/response_owners.h"

#include <absl/hash/hash.h>

namespace gateway {

void ResponseOwners::Note(std::string_view response, std::string_view tenant) {
  const uint64_t key = absl::HashOf(response);
  const std::scoped_lock lock(mutex_);
  if (!tenants_.insert_or_assign(key, absl::HashOf(tenant)).second) return;
  if (order_.size() < kMost) {
    order_.push_back(key);
    return;
  }
  tenants_.erase(order_[oldest_]);
  order_[oldest_] = key;
  oldest_ = (oldest_ + 1) % kMost;
}

bool ResponseOwners::Owns(std::string_view response, std::string_view tenant) const {
  const uint64_t key = absl::HashOf(response);
  const std::scoped_lock lock(mutex_);
  const auto found = tenants_.find(key);
  return found != tenants_.end() && found->second == absl::HashOf(tenant);
}

}  // namespace gateway
