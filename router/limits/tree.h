// The tenants' tree and the limits on it.
//
// Built from configuration, changed by reloads (Update) and by keys that come and go (AddKey, KeepKeys). A
// limit that stays the same (path, dimension, period, model) keeps its counter and takes its new capacity at
// once. A new limit counts from when it is added; requests in flight stay charged to the limits that admitted
// them. Thread-safe: the tree's lock guards the structure, and no request takes it once its NodeRef is
// resolved; the root's lock guards counters, with one short section per root on reload.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/limits/plan.h"
#include "router/limits/spec.h"

namespace router::limits {

// A limit as the admin API shows it.
struct LimitState {
  std::string scope;
  std::string_view name;  // `tokens_per_minute`
  std::string model;      // empty: any
  std::string device;     // of a device budget: the kind; empty: any
  Dimension dimension = Dimension::kRequests;
  int64_t capacity = 0;
  int64_t effective = 0;  // the part that this process may use
  int64_t used = 0;       // reservations included
  int64_t reserved = 0;   // in flight
  uint64_t overrun = 0;   // use beyond reservations since the start
  uint64_t refusals = 0;
  std::optional<PeriodBounds> period;  // budgets
};

// A handle to one limit for code outside the request path: shares and snapshots. Keeps its limit alive.
class LimitRef {
 public:
  LimitRef(std::shared_ptr<Root> root, std::shared_ptr<Limit> limit)
      : root_(std::move(root)), limit_(std::move(limit)) {}

  const std::string& scope() const { return limit_->scope(); }
  const LimitSpec& spec() const { return limit_->spec(); }
  // The same in every process: `acme/search|tokens_per_minute|chat-small`.
  std::string Id() const;

  LimitState State(conf::TimePoint now) const;

  struct Demand {
    int64_t capacity = 0;
    int64_t used = 0;
    int64_t admitted = 0;   // since the last call, while shared
    int64_t refused = 0;    // since the last call, while shared
    int64_t most_used = 0;  // peak since the last call; concurrency only
  };
  Demand TakeDemand(conf::TimePoint now) const;

  // Restores a budget's consumption from before this limit, or this process, existed. Call Settled() first;
  // then sum up `spent` of all requests admitted since `period_start`, the beginning of the present period,
  // including all that was settled by then. What is settled meanwhile is not lost. False for another period
  // or dimension.
  int64_t Settled(conf::TimePoint now) const;
  bool Restore(conf::TimePoint period_start, int64_t spent, int64_t settled_before,
               conf::TimePoint now) const;

  // Limits this process to `share` of the capacity; Limit::kUnshared lifts that. Amounts in use stay in use,
  // so it returns what this process really holds: the share, or the amount in use if that is more.
  int64_t SetShare(int64_t share, conf::TimePoint now) const;

 private:
  std::shared_ptr<Root> root_;
  std::shared_ptr<Limit> limit_;
};

class LimitTree {
 public:
  LimitTree() = default;
  LimitTree(const LimitTree&) = delete;
  LimitTree& operator=(const LimitTree&) = delete;

  // Replaces the configured tree by `nodes` and the ancestors that their paths imply. Keys added at run time
  // stay while their parent does. On an error nothing changes.
  absl::Status Update(std::span<const NodeSpec> nodes);

  // Adds a node at run time, or replaces its limits; its parent must exist.
  absl::StatusOr<NodeRef> AddKey(const NodeSpec& node);

  // Removes the nodes added at run time that are not among `paths`. Requests in flight settle as usual; new
  // requests with an old NodeRef are refused.
  void KeepKeys(const std::set<std::string, std::less<>>& paths);

  // Empty when there is no such node.
  NodeRef Resolve(std::string_view path) const;

  // The model's number, which never changes. For configured models only, never for a name that a client sent:
  // each new name takes memory.
  ModelRef Model(std::string_view name);

  // Every limit, ordered by path, in the order configured.
  std::vector<LimitRef> Limits() const;
  std::vector<LimitState> Snapshot(conf::TimePoint now) const;

 private:
  struct Entry {
    std::shared_ptr<Node> node;
    std::vector<std::shared_ptr<Limit>> own;
    std::shared_ptr<const PlanSet> plans;  // as node->plans, readable under the tree's lock
    bool key = false;                      // added at run time
  };
  using Entries = std::map<std::string, Entry, std::less<>>;  // parents come before their children
  using Specs = std::span<const LimitSpec>;

  // The changes under one root, prepared before its lock is taken. By the root's name.
  struct Change {
    std::shared_ptr<Root> root;
    std::vector<std::pair<std::shared_ptr<Limit>, int64_t>> capacities;
    std::vector<std::pair<std::shared_ptr<Node>, std::shared_ptr<const PlanSet>>> plans;
  };
  using Changes = std::map<std::string, Change, std::less<>>;
  static void Apply(Changes changes);

  Change& ChangeOf(const std::shared_ptr<Node>& node, Changes& changes) const;
  // Creates the node if it is new and sets its limits; its plan is compiled later.
  void SetLimits(const std::string& path, Specs specs, bool key, Changes& changes);
  void CompilePlan(Entry& entry, Changes& changes);
  Entries::iterator Drop(Entries::iterator entry, Changes& changes);
  ModelRef Intern(std::string_view name);

  mutable std::mutex mutex_;
  Entries entries_;
  std::map<std::string, ModelRef, std::less<>> models_;
};

}  // namespace router::limits
