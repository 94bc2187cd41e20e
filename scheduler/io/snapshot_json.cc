#include "scheduler/io/snapshot_json.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <utility>

#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/snapshot_check.h"
#include "scheduler/io/work_json.h"

namespace scheduler {

template <class O>
constexpr void Bind(O& o, PartitionProfile& t) {
  o.Required("name", t.name);
  o.Optional("compute", t.compute);
  o.Optional("slots", t.slots);
  o.Optional("starts", t.starts);
}

template <class O>
constexpr void Bind(O& o, PartitionLayout& t) {
  o.Required("name", t.name);
  o.Optional("compute", t.compute);
  o.Optional("slots", t.slots);
  o.Optional("profiles", t.profiles);
}

template <class O>
constexpr void Bind(O& o, DeviceKind& t) {
  o.Required("name", t.name);
  o.Optional("memory_mib", t.memory_mib);
  o.Optional("idle_watts", t.idle_watts);
  o.Optional("busy_watts", t.busy_watts);
  o.Optional("layout", t.layout);
}

template <class O>
constexpr void Bind(O& o, NodeType& t) {
  o.Required("name", t.name);
  o.Optional("cpu_milli", t.cpu_milli);
  o.Optional("memory_mib", t.memory_mib);
  o.Optional("kind", t.kind);
  o.Optional("devices", t.devices);
  o.Optional("link_domain", t.link_domain);
  o.Optional("numa", t.numa);
  o.Optional("idle_watts", t.idle_watts);
}

template <class O>
constexpr void Bind(O& o, Node& t) {
  o.Required("name", t.name);
  o.Optional("type", t.type);
  o.Optional("domain", t.domain);
  o.Optional("labels", t.labels);
  o.Optional("health", t.health);
  o.Optional("power_budget_watts", t.power_budget_watts);
}

template <class O>
constexpr void Bind(O& o, Domain& t) {
  o.Required("name", t.name);
  o.Optional("level", t.level);
  o.Optional("parent", t.parent);
  o.Optional("power_budget_watts", t.power_budget_watts);
}

template <class O>
constexpr void Bind(O& o, Resource& t) {
  o.Required("name", t.name);
  o.Required("count", t.count);
}

template <class O>
constexpr void Bind(O& o, HostAmounts& t) {
  o.Optional("cpu_milli", t.cpu_milli);
  o.Optional("memory_mib", t.memory_mib);
}

template <class O>
constexpr void Bind(O& o, NodeHealth& t) {
  o.Optional("health", t.health);
  o.Optional("broken_devices", t.broken_devices);
  o.Optional("emptied_devices", t.emptied_devices);
  o.Optional("others", t.others);
  o.Optional("unmodelled_milliwatts", t.unmodelled_milliwatts);
  o.Optional("faults", t.faults);
}

template <class O>
constexpr void Bind(O& o, Queue& t) {
  o.Required("name", t.name);
  o.Optional("parent", t.parent);
  o.Optional("deserved", t.deserved);
  o.Optional("limit", t.limit);
  o.Optional("over_quota_weight", t.over_quota_weight);
  o.Optional("borrows", t.borrows);
  o.Optional("lends", t.lends);
  o.Optional("user_limit", t.user_limit);
}

// The fields of an ask that is only counted; its other fields are not counted.
template <class O>
constexpr void Bind(O& o, Shape& t) {
  o.Optional("cpu_milli", t.cpu_milli);
  o.NotWritten(t.memory_mib);
  o.Optional("devices", t.count);
  o.Optional("milli", t.milli);
  o.NotWritten(t.device_mib);
  o.Optional("kinds", t.kinds);
  o.Optional("profile", t.profile);
  o.NotWritten(t.require);
  o.NotWritten(t.avoid);
  o.NotWritten(t.prefer);
  o.NotWritten(t.isolation);
  o.NotWritten(t.tenant);
}

template <class O>
constexpr void Bind(O& o, DemandCount& t) {
  o.Inline(t.shape);
  o.Required("times", t.count);
}

template <class O>
constexpr void Bind(O& o, LearnedDemand& t) {
  o.Optional("seen", t.seen);
  o.Optional("in_use", t.in_use);
  o.Optional("observed", t.observed);
  o.Optional("next", t.next);
  o.Optional("version", t.version);
}

template <class O>
constexpr void Bind(O& o, RunSums& t) {
  o.Required("runs", t.runs);
  o.Required("seconds", t.seconds);
  o.Required("squares", t.squares);
}

template <class O>
constexpr void Bind(O& o, RunsOfClass& t) {
  o.Inline(t.of);
  o.Inline(t.sums);
}

template <class O>
constexpr void Bind(O& o, Reserved& t) {
  o.Required("job", t.job);
  o.Required("start", t.start);
  o.Required("end", t.end);
  o.Optional("nodes", t.nodes);
  o.Optional("members", t.members);
}

template <class O>
constexpr void Bind(O& o, JobState& t) {
  o.Inline(t.job);
  o.Optional("phase", t.phase);
  o.Optional("members", t.members);
  o.Optional("started", t.started);
  o.Optional("checkpointed", t.checkpointed);
  o.Optional("stops_at", t.stops_at);
  o.Optional("after_stop", t.after_stop);
  o.Optional("idle_since", t.idle_since);
  o.Optional("lost_members", t.lost_members);
  o.Optional("backfilled", t.backfilled);
  o.Optional("leaving", t.leaving);
  o.Optional("moved", t.moved);
  o.Optional("done", t.done);
  o.Optional("restarts", t.restarts);
}

}  // namespace scheduler

namespace scheduler::io {
namespace {

struct Usage {
  std::string queue{};
  std::string user{};
  double amount = 0;
};

template <class O>
constexpr void Bind(O& o, Usage& t) {
  o.Optional("queue", t.queue);
  o.Optional("user", t.user);
  o.Required("amount", t.amount);
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
  std::vector<Resource> resources{};
  std::vector<NodeHealth> health{};
  std::vector<Queue> queues{};
  std::vector<JobState> jobs{};
  std::vector<Usage> usage{};
  std::vector<std::string> tenants{};
  LearnedDemand demand{};
  LearnedRuns runs{};
  std::vector<Reserved> reserved{};
  std::vector<std::string> failed{};
  conf::TimePoint defragmented{};
  std::vector<conf::TimePoint> moves{};
};

template <class O>
constexpr void Bind(O& o, Dump& t) {
  o.Required("format", t.format);
  o.Required("format_version", t.format_version);
  o.Required("version", t.version);
  o.Required("as_of", t.as_of);
  o.Optional("layouts", t.layouts);
  o.Optional("kinds", t.kinds);
  o.Optional("types", t.types);
  o.Optional("levels", t.levels);
  o.Optional("domains", t.domains);
  o.Optional("nodes", t.nodes);
  o.Optional("resources", t.resources);
  o.Optional("health", t.health);
  o.Optional("queues", t.queues);
  o.Optional("jobs", t.jobs);
  o.Optional("usage", t.usage);
  o.Optional("tenants", t.tenants);
  o.Optional("demand", t.demand);
  o.Optional("runs", t.runs);
  o.Optional("reserved", t.reserved);
  o.Optional("failed", t.failed);
  o.Optional("defragmented", t.defragmented);
  o.Optional("moves", t.moves);
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
            .resources = s.cluster.resources,
            .health = s.health,
            .queues = s.queues,
            .jobs = s.jobs,
            .tenants = s.tenants,
            .demand = s.demand,
            .runs = s.runs,
            .reserved = s.reserved,
            .failed = s.failed,
            .defragmented = s.defragmented,
            .moves = s.moves};
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
                         .fabric = {.levels = std::move(dump.levels), .domains = std::move(dump.domains)},
                         .resources = std::move(dump.resources)},
             .health = std::move(dump.health),
             .queues = std::move(dump.queues),
             .jobs = std::move(dump.jobs),
             .tenants = std::move(dump.tenants),
             .demand = std::move(dump.demand),
             .runs = std::move(dump.runs),
             .reserved = std::move(dump.reserved),
             .failed = std::move(dump.failed),
             .defragmented = dump.defragmented,
             .moves = std::move(dump.moves)};
  for (Usage& one : dump.usage) s.usage[{std::move(one.queue), std::move(one.user)}] = one.amount;
  return s;
}

// Before all else: a file of another kind would only give hundreds of unknown keys.
void CheckHeader(const conf::Json& json, conf::JsonFaults& faults) {
  if (!json.is_object() || json.value("format", conf::Json()) != kSnapshotFormat) {
    faults.Add(fmt::format("is not a snapshot: its format is not \"{}\"", kSnapshotFormat));
  } else if (const conf::Json version = json.value("format_version", conf::Json());
             version != kSnapshotFormatVersion) {
    faults.Add(
        fmt::format("has format_version {}, this build reads {}", version.dump(), kSnapshotFormatVersion));
  }
}

}  // namespace

std::string WriteSnapshot(const Snapshot& snapshot) {
  std::string out;
  conf::JsonWriter writer(out, conf::JsonWriter::Layout::kItemPerLine);
  conf::WriteJson(writer, ToDump(snapshot));
  out += '\n';
  return out;
}

Loaded<Snapshot> ReadSnapshot(std::string_view text, const std::string& file) {
  Loaded<Snapshot> out;
  conf::JsonFaults faults;
  Dump dump;
  if (const std::optional<conf::Json> json = conf::ParseJson(text, faults)) {
    CheckHeader(*json, faults);
    if (faults.count() == 0) conf::ReadJson(*json, dump, faults);
  }
  if (faults.count() == 0) {
    Snapshot snapshot = FromDump(std::move(dump));
    if (std::string defect = FirstDefect(snapshot); defect.empty()) {
      out.value = std::move(snapshot);
    } else {
      faults.Add(std::move(defect));
    }
  }
  for (const conf::JsonFaults::Fault& fault : faults.faults()) {
    out.problems.push_back({file, Visible(fault.pointer), 0, Visible(fault.value), Visible(fault.message)});
  }
  return out;
}

}  // namespace scheduler::io
