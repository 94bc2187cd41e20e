#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "conf/text.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/io/units.h"
#include "scheduler/model.h"
#include "scheduler/queues/queue_defects.h"

namespace scheduler::io {
namespace {

constexpr size_t kQueueHints =
    100;                          // problems until which names are suggested: it takes a look at all of them
constexpr size_t kMaxDepth = 16;  // usage is added up along the path for every job

class QueueCheck {
 public:
  QueueCheck(conf::Document& document, const std::vector<Queue>& queues)
      : document_(document), queues_(queues) {
    for (const Queue& queue : queues) names_.push_back(queue.name);
  }

  void CheckNames() {
    for (size_t q = 0; q < queues_.size(); ++q) {
      if (queues_[q].name.empty()) continue;
      const auto [first, added] = index_.try_emplace(queues_[q].name, q);
      if (added) continue;
      Report(q, "name", queues_[q].name,
             fmt::format("queue \"{}\" is given twice, first at /queues/{}", queues_[q].name, first->second));
    }
  }

  void CheckParents() {
    endless_ = FindEndless();
    for (size_t q = 0; q < queues_.size(); ++q) {
      const std::string& parent = queues_[q].parent;
      if (parent.empty()) continue;
      if (!index_.contains(parent)) {
        Report(q, "parent", parent,
               fmt::format("unknown queue \"{}\"{}", parent,
                           document_.problem_count() < kQueueHints ? conf::DidYouMean(parent, names_) : ""));
      } else {
        CheckPath(q);
      }
    }
  }

  // Deserved is a promise: one above the limit, or above what the parent is promised, cannot be kept.
  void CheckQuotas() {
    std::map<std::pair<size_t, std::string>, int64_t> of_children;
    for (size_t q = 0; q < queues_.size(); ++q) {
      for (const auto& [kind, milli] : queues_[q].deserved) {
        const auto limit = queues_[q].limit.find(kind);
        if (limit != queues_[q].limit.end() && milli > limit->second) {
          Report(q, "deserved", FormatMilli(milli),
                 fmt::format("{} of {} are deserved, above the limit of {}", FormatMilli(milli), kind,
                             FormatMilli(limit->second)));
        }
        const auto parent = index_.find(queues_[q].parent);
        if (parent != index_.end()) of_children[{parent->second, kind}] += milli;
      }
    }
    for (const auto& [who, milli] : of_children) {
      const auto& [q, kind] = who;
      const int64_t own = QuotaFor(queues_[q].deserved, kind);
      if (milli <= own) continue;
      Report(q, "deserved", FormatMilli(own),
             fmt::format("its children deserve {} of {} together, above its own {}", FormatMilli(milli), kind,
                         FormatMilli(own)));
    }
  }

  // Only what is deserved can be lent.
  void CheckLends() {
    for (size_t q = 0; q < queues_.size(); ++q) {
      if (!queues_[q].lends) continue;
      for (const auto& [kind, milli] : *queues_[q].lends) {
        const int64_t deserved = QuotaFor(queues_[q].deserved, kind);
        if (milli <= deserved) continue;
        Report(q, "lends" + conf::JoinPointer("", kind), FormatMilli(milli),
               fmt::format("{} of {} are lent, above the {} that it deserves", FormatMilli(milli), kind,
                           FormatMilli(deserved)));
      }
    }
  }

  void CheckKinds(const Cluster& cluster) {
    std::vector<std::string_view> kinds = {"*"};
    for (const DeviceKind& kind : cluster.kinds) kinds.push_back(kind.name);
    const DeviceQuota none;
    for (size_t q = 0; q < queues_.size(); ++q) {
      const Queue& queue = queues_[q];
      const DeviceQuota& lends = queue.lends ? *queue.lends : none;
      const std::array<std::pair<std::string_view, const DeviceQuota*>, 4> quotas = {
          {{"deserved", &queue.deserved},
           {"limit", &queue.limit},
           {"lends", &lends},
           {"user_limit", &queue.user_limit}}};
      for (const auto& [field, quota] : quotas) {
        for (const auto& [kind, milli] : *quota) {
          if (std::ranges::find(kinds, kind) != kinds.end()) continue;
          Report(q, std::string(field) + conf::JoinPointer("", kind), kind,
                 fmt::format("unknown device kind \"{}\"{}", kind, conf::DidYouMean(kind, kinds)));
        }
      }
    }
  }

 private:
  void Report(size_t q, std::string_view field, std::string_view value, const std::string& message) {
    document_.AddAt(fmt::format("/queues/{}/{}", q, field), value, message);
  }

  void CheckPath(size_t q) {
    std::string chain = queues_[q].name;
    size_t depth = 0;
    for (auto up = index_.find(queues_[q].parent); up != index_.end();
         up = index_.find(queues_[up->second].parent)) {
      chain += " -> " + up->first;
      if (up->second == q) {
        Report(q, "parent", queues_[q].parent, fmt::format("is a cycle: {}", chain));
        return;
      }
      if (++depth >= kMaxDepth) {
        // A cycle further up is reported at the queues that are in it.
        if (!endless_[q]) {
          Report(q, "parent", queues_[q].parent, fmt::format("is deeper than {} queues", kMaxDepth));
        }
        return;
      }
    }
  }

  // For each queue, whether its path upwards never ends.
  std::vector<bool> FindEndless() const {
    enum : char { kUnknown, kOnPath, kEnds, kEndless };
    std::vector<char> known(queues_.size(), kUnknown);
    std::vector<size_t> path;
    for (size_t q = 0; q < queues_.size(); ++q) {
      char found = kEnds;
      for (size_t at = q;;) {
        if (known[at] != kUnknown) {
          found = known[at] == kOnPath ? static_cast<char>(kEndless) : known[at];
          break;
        }
        known[at] = kOnPath;
        path.push_back(at);
        const auto up = index_.find(queues_[at].parent);
        if (up == index_.end()) break;
        at = up->second;
      }
      for (const size_t at : path) known[at] = found;
      path.clear();
    }
    std::vector<bool> endless;
    endless.reserve(known.size());
    for (const char one : known) endless.push_back(one == kEndless);
    return endless;
  }

  conf::Document& document_;
  const std::vector<Queue>& queues_;
  std::vector<std::string_view> names_;
  std::map<std::string, size_t> index_;
  std::vector<bool> endless_;
};

}  // namespace

void CheckQueues(conf::Document& document, const std::vector<Queue>& queues, const Cluster* cluster) {
  if (queues.size() > kMostQueues) {
    document.AddAt("/queues", "", fmt::format("{} queues, at most {} fit", queues.size(), kMostQueues));
    return;
  }
  QueueCheck check(document, queues);
  check.CheckNames();
  check.CheckParents();
  check.CheckQuotas();
  check.CheckLends();
  if (cluster != nullptr) check.CheckKinds(*cluster);
}

}  // namespace scheduler::io
