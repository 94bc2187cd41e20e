#include "scheduler/queues/queue_defects.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace scheduler {
namespace {

constexpr const char* kAll = "*";

std::string DefectOf(const std::string& queue, const char* what, const DeviceQuota& quota,
                     const Cluster& cluster) {
  for (const auto& [kind, milli] : quota) {
    if (kind != kAll && std::ranges::find(cluster.kinds, kind, &DeviceKind::name) == cluster.kinds.end()) {
      return fmt::format("queue \"{}\": {} names \"{}\", a kind of device that the cluster does not have",
                         queue, what, kind);
    }
    if (milli < 0) return fmt::format("queue \"{}\": {} of {} is {}, below 0", queue, what, kind, milli);
  }
  return {};
}

std::string FirstExcess(const Queue& queue) {
  for (const auto& [kind, milli] : queue.deserved) {
    const auto limit = queue.limit.find(kind);
    if (limit != queue.limit.end() && limit->second < milli) {
      return fmt::format("queue \"{}\": deserved {} of {} is above its limit of {}", queue.name, milli, kind,
                         limit->second);
    }
  }
  if (!queue.lends) return {};
  for (const auto& [kind, milli] : *queue.lends) {
    if (milli > QuotaFor(queue.deserved, kind)) {
      return fmt::format("queue \"{}\": lends {} of {}, more than the {} that it deserves", queue.name, milli,
                         kind, QuotaFor(queue.deserved, kind));
    }
  }
  return {};
}

}  // namespace

int64_t QuotaFor(const DeviceQuota& quota, const std::string& kind) {
  const auto named = quota.find(kind);
  if (named != quota.end()) return named->second;
  const auto all = quota.find(kAll);
  if (all != quota.end()) return all->second;
  int64_t sum = 0;
  if (kind == kAll) {
    for (const auto& [name, milli] : quota) sum += milli;
  }
  return sum;
}

std::string FirstDefect(const std::vector<Queue>& queues, const Cluster& cluster) {
  std::map<std::string, const Queue*> by_name;
  for (const Queue& queue : queues) {
    if (queue.name.empty()) return "a queue has no name";
    if (!by_name.emplace(queue.name, &queue).second) {
      return fmt::format("queue \"{}\" is defined twice", queue.name);
    }
    for (const auto& [what, quota] :
         {std::pair("deserved", &queue.deserved), std::pair("limit", &queue.limit),
          std::pair("user_limit", &queue.user_limit)}) {
      if (std::string defect = DefectOf(queue.name, what, *quota, cluster); !defect.empty()) return defect;
    }
    if (queue.lends) {
      if (std::string defect = DefectOf(queue.name, "lends", *queue.lends, cluster); !defect.empty()) {
        return defect;
      }
    }
    if (!(queue.over_quota_weight >= 0 && queue.over_quota_weight <= 1e9)) {
      return fmt::format("queue \"{}\": over_quota_weight is {}, not between 0 and 1e9", queue.name,
                         queue.over_quota_weight);
    }
    if (std::string defect = FirstExcess(queue); !defect.empty()) return defect;
  }
  for (const Queue& queue : queues) {
    const Queue* above = &queue;
    for (size_t steps = 0; !above->parent.empty(); ++steps) {
      const auto parent = by_name.find(above->parent);
      if (parent == by_name.end()) {
        return fmt::format("queue \"{}\": its parent \"{}\" does not exist", above->name, above->parent);
      }
      if (steps == queues.size()) return fmt::format("queue \"{}\" is above itself", queue.name);
      above = parent->second;
    }
  }
  std::map<std::pair<std::string, std::string>, int64_t> promised;  // (parent, kind)
  for (const Queue& queue : queues) {
    if (queue.parent.empty()) continue;
    for (const auto& [kind, milli] : queue.deserved) {
      int64_t& sum = promised[{queue.parent, kind}];
      sum += milli;
      const int64_t has = QuotaFor(by_name.at(queue.parent)->deserved, kind);
      if (sum > has) {
        return fmt::format("queue \"{}\": with it, the queues of \"{}\" deserve {} of {}, more than its {}",
                           queue.name, queue.parent, sum, kind, has);
      }
    }
  }
  return {};
}

}  // namespace scheduler
