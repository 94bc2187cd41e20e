#include "scheduler/io/snapshot_json.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/snapshot_check.h"
#include "scheduler/io/work_json.h"

namespace scheduler::io {

template <>
inline constexpr std::array kEnumerators<Health> = {Health::kHealthy, Health::kSuspect, Health::kDraining,
                                                    Health::kQuarantined};
template <>
inline constexpr std::array kEnumerators<Phase> = {Phase::kPending, Phase::kRunning, Phase::kStopping,
                                                   Phase::kSuspended};

template <>
inline constexpr std::array kEnumerators<AfterStop> = {AfterStop::kWaits, AfterStop::kSuspends,
                                                       AfterStop::kLeaves};

template <class A>
constexpr void Fields(A& a, const PartitionProfile*) {
  a.Required("name", &PartitionProfile::name);
  a.Optional("compute", &PartitionProfile::compute);
  a.Optional("slots", &PartitionProfile::slots);
  a.Optional("starts", &PartitionProfile::starts);
}

template <class A>
constexpr void Fields(A& a, const PartitionLayout*) {
  a.Required("name", &PartitionLayout::name);
  a.Optional("compute", &PartitionLayout::compute);
  a.Optional("slots", &PartitionLayout::slots);
  a.Optional("profiles", &PartitionLayout::profiles);
}

template <class A>
constexpr void Fields(A& a, const DeviceKind*) {
  a.Required("name", &DeviceKind::name);
  a.Optional("memory_mib", &DeviceKind::memory_mib);
  a.Optional("idle_watts", &DeviceKind::idle_watts);
  a.Optional("busy_watts", &DeviceKind::busy_watts);
  a.Optional("layout", &DeviceKind::layout);
}

template <class A>
constexpr void Fields(A& a, const NodeType*) {
  a.Required("name", &NodeType::name);
  a.Optional("cpu_milli", &NodeType::cpu_milli);
  a.Optional("memory_mib", &NodeType::memory_mib);
  a.Optional("kind", &NodeType::kind);
  a.Optional("devices", &NodeType::devices);
  a.Optional("link_domain", &NodeType::link_domain);
  a.Optional("numa", &NodeType::numa);
  a.Optional("idle_watts", &NodeType::idle_watts);
}

template <class A>
constexpr void Fields(A& a, const Node*) {
  a.Required("name", &Node::name);
  a.Optional("type", &Node::type);
  a.Optional("domain", &Node::domain);
  a.Optional("labels", &Node::labels);
  a.Optional("health", &Node::health);
  a.Optional("power_budget_watts", &Node::power_budget_watts);
}

template <class A>
constexpr void Fields(A& a, const Domain*) {
  a.Required("name", &Domain::name);
  a.Optional("level", &Domain::level);
  a.Optional("parent", &Domain::parent);
  a.Optional("power_budget_watts", &Domain::power_budget_watts);
}

template <class A>
constexpr void Fields(A& a, const NodeHealth*) {
  a.Optional("health", &NodeHealth::health);
  a.Optional("broken_devices", &NodeHealth::broken_devices);
  a.Optional("faults", &NodeHealth::faults);
}

template <class A>
constexpr void Fields(A& a, const Queue*) {
  a.Required("name", &Queue::name);
  a.Optional("parent", &Queue::parent);
  a.Optional("deserved", &Queue::deserved);
  a.Optional("limit", &Queue::limit);
  a.Optional("over_quota_weight", &Queue::over_quota_weight);
  a.Optional("borrows", &Queue::borrows);
  a.Optional("lends", &Queue::lends);
  a.Optional("user_limit", &Queue::user_limit);
}

template <class A>
constexpr void Fields(A& a, const Holding*) {
  a.Optional("node", &Holding::node);
  a.Optional("devices", &Holding::devices);
  a.Optional("milli", &Holding::milli);
  a.Optional("profile", &Holding::profile);
  a.Optional("start", &Holding::start);
  a.Optional("isolation", &Holding::isolation);
  a.Optional("tenant", &Holding::tenant);
  a.Optional("cpu_milli", &Holding::cpu_milli);
  a.Optional("memory_mib", &Holding::memory_mib);
  a.Optional("device_mib", &Holding::device_mib);
}

template <class A>
constexpr void Fields(A& a, const MemberAt*) {
  a.Optional("role", &MemberAt::role);
  a.Optional("rank", &MemberAt::rank);
  a.Inline(&MemberAt::holding);
}

// Of an ask that is only counted: the rest is left out there, too.
template <class A>
constexpr void Fields(A& a, const Shape*) {
  a.Optional("cpu_milli", &Shape::cpu_milli);
  a.NotWritten(&Shape::memory_mib);
  a.Optional("devices", &Shape::count);
  a.Optional("milli", &Shape::milli);
  a.NotWritten(&Shape::device_mib);
  a.Optional("kinds", &Shape::kinds);
  a.Optional("profile", &Shape::profile);
  a.NotWritten(&Shape::require);
  a.NotWritten(&Shape::avoid);
  a.NotWritten(&Shape::prefer);
  a.NotWritten(&Shape::isolation);
  a.NotWritten(&Shape::tenant);
}

template <class A>
constexpr void Fields(A& a, const DemandCount*) {
  a.Inline(&DemandCount::shape);
  a.Required("times", &DemandCount::count);
}

template <class A>
constexpr void Fields(A& a, const LearnedDemand*) {
  a.Optional("seen", &LearnedDemand::seen);
  a.Optional("in_use", &LearnedDemand::in_use);
  a.Optional("observed", &LearnedDemand::observed);
  a.Optional("next", &LearnedDemand::next);
  a.Optional("version", &LearnedDemand::version);
}

template <class A>
constexpr void Fields(A& a, const Reserved*) {
  a.Required("job", &Reserved::job);
  a.Required("start", &Reserved::start);
  a.Required("end", &Reserved::end);
  a.Optional("nodes", &Reserved::nodes);
  a.Optional("members", &Reserved::members);
}

template <class A>
constexpr void Fields(A& a, const JobState*) {
  a.Inline(&JobState::job);
  a.Optional("phase", &JobState::phase);
  a.Optional("members", &JobState::members);
  a.Optional("started", &JobState::started);
  a.Optional("checkpointed", &JobState::checkpointed);
  a.Optional("stops_at", &JobState::stops_at);
  a.Optional("after_stop", &JobState::after_stop);
  a.Optional("idle_since", &JobState::idle_since);
  a.Optional("lost_members", &JobState::lost_members);
  a.Optional("leaving", &JobState::leaving);
  a.Optional("done", &JobState::done);
  a.Optional("restarts", &JobState::restarts);
}

namespace {

struct Usage {
  std::string queue{};
  std::string user{};
  double amount = 0;
};

template <class A>
constexpr void Fields(A& a, const Usage*) {
  a.Optional("queue", &Usage::queue);
  a.Optional("user", &Usage::user);
  a.Required("amount", &Usage::amount);
}

// The file's own object: lists at its top, so that each item has its line.
struct Dump {
  std::string format{};
  uint32_t format_version = 0;
  uint64_t version = 0;
  conf::TimePoint as_of{};
  std::vector<PartitionLayout> layouts{};
  std::vector<DeviceKind> kinds{};
  std::vector<NodeType> types{};
  std::vector<std::string> levels{};
  std::vector<Domain> domains{};
  std::vector<Node> nodes{};
  std::vector<NodeHealth> health{};
  std::vector<Queue> queues{};
  std::vector<JobState> jobs{};
  std::vector<Usage> usage{};
  std::vector<std::string> tenants{};
  LearnedDemand demand{};
  std::vector<Reserved> reserved{};
  std::vector<std::string> failed{};
  conf::TimePoint defragmented{};
};

template <class A>
constexpr void Fields(A& a, const Dump*) {
  a.Required("format", &Dump::format);
  a.Required("format_version", &Dump::format_version);
  a.Required("version", &Dump::version);
  a.Required("as_of", &Dump::as_of);
  a.Optional("layouts", &Dump::layouts);
  a.Optional("kinds", &Dump::kinds);
  a.Optional("types", &Dump::types);
  a.Optional("levels", &Dump::levels);
  a.Optional("domains", &Dump::domains);
  a.Optional("nodes", &Dump::nodes);
  a.Optional("health", &Dump::health);
  a.Optional("queues", &Dump::queues);
  a.Optional("jobs", &Dump::jobs);
  a.Optional("usage", &Dump::usage);
  a.Optional("tenants", &Dump::tenants);
  a.Optional("demand", &Dump::demand);
  a.Optional("reserved", &Dump::reserved);
  a.Optional("failed", &Dump::failed);
  a.Optional("defragmented", &Dump::defragmented);
}

Dump ToDump(const Snapshot& s) {
  Dump dump{.format = std::string(kSnapshotFormat),
            .format_version = kSnapshotFormatVersion,
            .version = s.version,
            .as_of = s.as_of,
            .layouts = s.cluster.layouts,
            .kinds = s.cluster.kinds,
            .types = s.cluster.types,
            .levels = s.cluster.fabric.levels,
            .domains = s.cluster.fabric.domains,
            .nodes = s.cluster.nodes,
            .health = s.health,
            .queues = s.queues,
            .jobs = s.jobs,
            .tenants = s.tenants,
            .demand = s.demand,
            .reserved = s.reserved,
            .failed = s.failed,
            .defragmented = s.defragmented};
  for (const auto& [who, amount] : s.usage) dump.usage.push_back({who.first, who.second, amount});
  return dump;
}

Snapshot FromDump(Dump dump) {
  Snapshot s{.version = dump.version,
             .as_of = dump.as_of,
             .cluster = {.layouts = std::move(dump.layouts),
                         .kinds = std::move(dump.kinds),
                         .types = std::move(dump.types),
                         .nodes = std::move(dump.nodes),
                         .fabric = {.levels = std::move(dump.levels), .domains = std::move(dump.domains)}},
             .health = std::move(dump.health),
             .queues = std::move(dump.queues),
             .jobs = std::move(dump.jobs),
             .tenants = std::move(dump.tenants),
             .demand = std::move(dump.demand),
             .reserved = std::move(dump.reserved),
             .failed = std::move(dump.failed),
             .defragmented = dump.defragmented};
  for (Usage& one : dump.usage) s.usage[{std::move(one.queue), std::move(one.user)}] = one.amount;
  return s;
}

// Before all else: a file of another kind would only give hundreds of unknown keys.
void CheckHeader(const Json& json, JsonFaults& faults) {
  if (!json.is_object() || json.value("format", Json()) != kSnapshotFormat) {
    faults.Add(fmt::format("is not a snapshot: its format is not \"{}\"", kSnapshotFormat));
  } else if (const Json version = json.value("format_version", Json()); version != kSnapshotFormatVersion) {
    faults.Add(
        fmt::format("has format_version {}, this build reads {}", version.dump(), kSnapshotFormatVersion));
  }
}

}  // namespace

std::string WriteSnapshot(const Snapshot& snapshot) {
  std::string out;
  JsonWriter writer(out, JsonWriter::Layout::kItemPerLine);
  WriteJson(writer, ToDump(snapshot));
  out += '\n';
  return out;
}

Loaded<Snapshot> ReadSnapshot(std::string_view text, const std::string& file) {
  Loaded<Snapshot> out;
  JsonFaults faults;
  Dump dump;
  if (const std::optional<Json> json = ParseJson(text, faults)) {
    CheckHeader(*json, faults);
    if (faults.count() == 0) ReadJson(*json, dump, faults);
  }
  if (faults.count() == 0) {
    Snapshot snapshot = FromDump(std::move(dump));
    if (std::string defect = FirstDefect(snapshot); defect.empty()) {
      out.value = std::move(snapshot);
    } else {
      faults.Add(std::move(defect));
    }
  }
  for (const JsonFaults::Fault& fault : faults.faults()) {
    out.problems.push_back({file, Visible(fault.pointer), 0, Visible(fault.value), Visible(fault.message)});
  }
  return out;
}

}  // namespace scheduler::io
