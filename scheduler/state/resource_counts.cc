#include "scheduler/state/resource_counts.h"

#include <algorithm>

namespace scheduler {

ResourceCounts::ResourceCounts(const std::vector<Resource>& resources) {
  for (const Resource& resource : resources) counts_[resource.name].total = resource.count;
}

const ResourceCounts::Count* ResourceCounts::Find(std::string_view name) const {
  const auto at = counts_.find(name);
  return at == counts_.end() ? nullptr : &at->second;
}

// A running job counts until its end, even if the cluster no longer has its resource.
void ResourceCounts::Take(const std::vector<ResourceAsk>& asks) {
  for (const ResourceAsk& ask : asks) counts_[ask.name].held += ask.count;
}

void ResourceCounts::GiveBack(const std::vector<ResourceAsk>& asks) {
  for (const ResourceAsk& ask : asks) counts_[ask.name].held -= ask.count;
}

uint32_t ResourceCounts::free(std::string_view name) const {
  const Count* const count = Find(name);
  return count == nullptr ? 0 : count->total - std::min(count->total, count->held);
}

uint32_t ResourceCounts::total(std::string_view name) const {
  const Count* const count = Find(name);
  return count == nullptr ? 0 : count->total;
}

uint32_t ResourceCounts::held(std::string_view name) const {
  const Count* const count = Find(name);
  return count == nullptr ? 0 : count->held;
}

std::optional<ResourceShort> ResourceCounts::FirstShort(const std::vector<ResourceAsk>& asks) const {
  for (const ResourceAsk& ask : asks) {
    if (ask.count > free(ask.name))
      return ResourceShort{ask.name, ask.count, free(ask.name), total(ask.name)};
  }
  return std::nullopt;
}

std::optional<ResourceShort> ResourceCounts::FirstImpossible(const std::vector<ResourceAsk>& asks) const {
  for (const ResourceAsk& ask : asks) {
    if (ask.count > total(ask.name))
      return ResourceShort{ask.name, ask.count, free(ask.name), total(ask.name)};
  }
  return std::nullopt;
}

uint32_t AskedOf(const std::vector<ResourceAsk>& asks, std::string_view name) {
  const auto at = std::ranges::find(asks, name, &ResourceAsk::name);
  return at == asks.end() ? 0 : at->count;
}

}  // namespace scheduler
