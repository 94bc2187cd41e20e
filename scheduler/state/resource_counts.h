// How much of the cluster's countable resources (licences and the like) is held, and what of them is free.
//
// Jobs hold what they ask for as a whole, from their start until they have stopped. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace scheduler {

// A resource of which less is free than a job asks for.
struct ResourceShort {
  std::string name{};
  uint32_t asked = 0;
  uint32_t free = 0;
  uint32_t total = 0;  // 0: the cluster has none of that name
};

class ResourceCounts {
 public:
  explicit ResourceCounts(const std::vector<Resource>& resources);

  void Take(const std::vector<ResourceAsk>& asks);
  void GiveBack(const std::vector<ResourceAsk>& asks);

  // 0 where the cluster has none of that name, and where more is held than it has by now.
  uint32_t free(std::string_view name) const;
  uint32_t total(std::string_view name) const;
  uint32_t held(std::string_view name) const;
  bool empty() const { return counts_.empty(); }

  // The first ask that cannot be met now.
  std::optional<ResourceShort> FirstShort(const std::vector<ResourceAsk>& asks) const;
  // The first ask that could not be met even if no job held anything.
  std::optional<ResourceShort> FirstImpossible(const std::vector<ResourceAsk>& asks) const;

 private:
  struct Count {
    uint32_t total = 0;
    uint32_t held = 0;
  };
  const Count* Find(std::string_view name) const;

  std::map<std::string, Count, std::less<>> counts_;
};

// The job's request for the resource of that name; 0: none.
uint32_t AskedOf(const std::vector<ResourceAsk>& asks, std::string_view name);

}  // namespace scheduler
