#include "scheduler/io/policy_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/reader.h"
#include "conf/text.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/units.h"
#include "scheduler/model.h"
#include "scheduler/placement/policies.h"
#include "scheduler/queues/order.h"
#include "scheduler/queues/queue_defects.h"

namespace scheduler {
namespace {

using conf::AtLeast;
using conf::NotEmpty;

// A duration, which must be above 0 unless 0 is allowed.
struct Lasting {
  bool may_be_zero = false;
  std::string operator()(conf::Duration length) const {
    if (length <= conf::Duration::zero() && !may_be_zero) return "must be longer than 0";
    return length <= io::kLongest ? "" : fmt::format("must be at most {}", io::kLongestInWords);
  }
};

constexpr conf::Word<VictimOrder> kVictimOrders[] = {{"least-cost", VictimOrder::kLeastCost},
                                                     {"random", VictimOrder::kRandom},
                                                     {"youngest", VictimOrder::kYoungest}};

}  // namespace

// Found by conf::Object through the types' namespace.
static void Bind(conf::Object& o, OrderTerm& term) {
  o.Required("name", term.name, NotEmpty());
  o.Optional("weight", term.weight, conf::Range{0.0, io::kMostWeight});
}

static void Bind(conf::Object& o, BackfillPolicy& backfill) {
  o.Optional("kind", conf::Choice(backfill.kind, "backfill", kBackfillWords));
  o.Optional("depth", backfill.depth, AtLeast{1u});
  o.Optional("unknown_estimate", backfill.unknown_estimate, Lasting());
  o.Optional("evict_overrunning", backfill.evict_overrunning);
}

static void Bind(conf::Object& o, PreemptionPolicy& preemption) {
  o.Optional("by_priority", preemption.by_priority);
  o.Optional("reclaim", preemption.reclaim);
  o.Optional("victims", conf::Choice(preemption.victims, "order of victims", kVictimOrders));
  o.Optional("grace", preemption.grace, Lasting{.may_be_zero = true});
  o.Optional("max_victims", preemption.max_victims, AtLeast{1u});
}

static void Bind(conf::Object& o, DefragmentPolicy& defragment) {
  o.Optional("enabled", defragment.enabled);
  o.Optional("every", defragment.every, Lasting());
  o.Optional("partition_nodes", defragment.partition_nodes, AtLeast{2u});
  o.Optional("max_moves", defragment.max_moves, AtLeast{1u});
  o.Optional("depth", defragment.depth, AtLeast{1u});
}

void Bind(conf::Object& o, MovesPolicy& moves) {
  o.Optional("per_hour", moves.per_hour, conf::Range{0u, 10'000u});
  o.Optional("rest", moves.rest, Lasting());
  o.Optional("least_left", moves.least_left, Lasting{.may_be_zero = true});
  o.Optional("least_gain", moves.least_gain, Lasting{.may_be_zero = true});
}

static void Bind(conf::Object& o, FaultPolicy& faults) {
  o.Optional("suspect_after", faults.suspect_after, AtLeast{1u});
  o.Optional("quarantine_after", faults.quarantine_after, AtLeast{1u});
  o.Optional("window", faults.window, Lasting());
  o.Optional("recover_after", faults.recover_after, Lasting());
  o.Optional("hot_swap", faults.hot_swap);
  if (faults.quarantine_after < faults.suspect_after) {
    o.Error(fmt::format("is {}, below suspect_after, {}: a node is suspect before it is quarantined",
                        faults.quarantine_after, faults.suspect_after),
            "quarantine_after");
  }
}

static void Bind(conf::Object& o, Queue& queue) {
  o.Required("name", queue.name, NotEmpty());
  o.Optional("parent", queue.parent);
  o.Optional("deserved", io::Devices(queue.deserved));
  o.Optional("limit", io::Devices(queue.limit));
  o.Optional("over_quota_weight", queue.over_quota_weight, conf::Range{0.0, 1e9});
  o.Optional("borrows", queue.borrows);
  o.Optional("lends", io::Devices(queue.lends));
  o.Optional("user_limit", io::Devices(queue.user_limit));
}

namespace io {
namespace {

void CheckName(conf::Document& document, const std::string& pointer, std::string_view noun,
               const std::string& name, std::span<const std::string_view> names) {
  if (name.empty() || std::ranges::find(names, name) != names.end()) return;
  std::string hint = conf::DidYouMean(name, names);
  if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(names, ", "));
  document.AddAt(pointer, name, fmt::format("unknown {} \"{}\"{}", noun, name, hint));
}

void CheckOrder(conf::Document& document, const std::vector<OrderTerm>& order) {
  std::vector<std::string_view> names;
  for (const OrderTermInfo& term : OrderTerms()) names.push_back(term.name);
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string pointer = fmt::format("/order/{}/name", i);
    CheckName(document, pointer, "order term", order[i].name, names);
    const auto first = std::ranges::find(order, order[i].name, &OrderTerm::name) - order.begin();
    if (first < static_cast<std::ptrdiff_t>(i) && !order[i].name.empty()) {
      document.AddAt(pointer, order[i].name,
                     fmt::format("order term \"{}\" is given twice, first at /order/{}; add their weights",
                                 order[i].name, first));
    }
  }
}

void CheckPlacements(conf::Document& document, const Policy& policy) {
  std::vector<std::string_view> names;
  for (const PlacementPolicy& placement : PlacementPolicies()) names.push_back(placement.name);
  for (const auto& [pointer, name] : {std::pair("/placement", &policy.placement),
                                      std::pair("/inference_placement", &policy.inference_placement)}) {
    CheckName(document, pointer, "placement", *name, names);
  }
}

void CheckZone(conf::Document& document, const std::vector<std::string>& zone, const Cluster& cluster) {
  std::vector<std::string_view> names;
  names.reserve(cluster.fabric.domains.size());
  for (const Domain& domain : cluster.fabric.domains) names.push_back(domain.name);
  for (size_t i = 0; i < zone.size(); ++i) {
    const std::string pointer = fmt::format("/inference_zone/{}", i);
    if (std::ranges::find(names, zone[i]) != names.end()) continue;
    document.AddAt(pointer, zone[i],
                   fmt::format("unknown leaf group \"{}\"{}", zone[i], conf::DidYouMean(zone[i], names)));
  }
}

}  // namespace

static void Bind(conf::Object& o, PolicyFile& file) {
  Policy& policy = file.policy;
  o.Optional("order", policy.order, NotEmpty());
  o.Optional("placement", policy.placement, NotEmpty());
  o.Optional("inference_placement", policy.inference_placement, NotEmpty());
  o.Optional("inference_zone", policy.inference_zone);
  o.Optional("backfill", policy.backfill);
  o.Optional("preemption", policy.preemption);
  o.Optional("defragment", policy.defragment);
  o.Optional("moves", policy.moves);
  o.Optional("faults", policy.faults);
  o.Optional("usage_half_life", policy.usage_half_life, Lasting());
  o.Optional("queues", file.queues);
}

Loaded<PolicyFile> ReadPolicy(std::string_view text, const std::string& file, const Cluster* cluster) {
  conf::Document document(text, file, NoSources());
  PolicyFile read;
  if (document.parsed()) {
    conf::Read(document.root(), read);
    CheckOrder(document, read.policy.order);
    CheckPlacements(document, read.policy);
    if (cluster != nullptr) CheckZone(document, read.policy.inference_zone, *cluster);
    CheckQueues(document, read.queues, cluster);
    if (cluster != nullptr && document.problem_count() == 0) {
      // The demands of the tree itself, in case they ever exceed the checks above.
      if (const std::string defect = FirstDefect(read.queues, *cluster); !defect.empty()) {
        document.AddAt("/queues", "", defect);
      }
    }
  }
  Loaded<PolicyFile> out;
  out.problems = document.TakeProblems();
  if (out.problems.empty()) out.value = std::move(read);
  return out;
}

std::string WritePolicy(const PolicyFile& policy) {
  nlohmann::json out;
  conf::Writer writer(out);
  conf::Write(writer, policy);
  conf::Prune(out);
  return out.dump(2);
}

}  // namespace io
}  // namespace scheduler
