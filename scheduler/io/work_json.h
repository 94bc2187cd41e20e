// The fields of work.h, and of a class of jobs, as JSON has them: names and units are the structs' own.
#pragma once

#include "conf/json_fields.h"
#include "conf/json_reader.h"
#include "scheduler/learned_runs.h"
#include "scheduler/work.h"

namespace scheduler {

template <class O>
constexpr void Bind(O& o, DeviceAsk& t) {
  o.Optional("kinds", t.kinds);
  o.Optional("count", t.count);
  o.Optional("milli", t.milli);
  o.Optional("profile", t.profile);
  o.Optional("memory_mib", t.memory_mib);
}

template <class O>
constexpr void Bind(O& o, LabelRule& t) {
  o.Required("key", t.key);
  o.Required("values", t.values);
}

template <class O>
constexpr void Bind(O& o, ResourceAsk& t) {
  o.Required("name", t.name);
  o.Always("count", t.count);
}

// A list of names with counts, as it is written, or {"matlab": 1}, as the gateway's jobs have it.
inline void ReadJson(const conf::Json& in, std::vector<ResourceAsk>& out, conf::JsonFaults& faults) {
  if (!in.is_object()) return conf::ReadJson(in, out, faults);
  out.clear();
  for (const auto& [name, count] : in.items()) {
    faults.Enter(name);
    conf::ReadJson(count, out.emplace_back(ResourceAsk{.name = name}).count, faults);
    faults.Leave();
  }
}

template <class O>
constexpr void Bind(O& o, Ask& t) {
  o.Optional("devices", t.devices);
  o.Optional("cpu_milli", t.cpu_milli);
  o.Optional("memory_mib", t.memory_mib);
  o.Optional("require", t.require);
  o.Optional("avoid", t.avoid);
  o.Optional("prefer", t.prefer);
  o.Optional("isolation", t.isolation);
}

template <class O>
constexpr void Bind(O& o, Role& t) {
  o.Optional("name", t.name);
  o.Optional("count", t.count);
  o.Always("min_count", t.min_count);
  o.Inline(t.ask);
}

// Without min_count a role is a gang: all of its members or none.
inline void ReadJson(const conf::Json& in, Role& out, conf::JsonFaults& faults) {
  conf::ReadJson<Role>(in, out, faults);
  if (in.is_object() && !in.contains("min_count")) out.min_count = out.count;
}

template <class O>
constexpr void Bind(O& o, RunClass& t) {
  o.Optional("work", t.work);
  o.Optional("stated", t.stated);
  o.Optional("size", t.size);
  o.Optional("tenant", t.tenant);
  o.Optional("user", t.user);
  o.Optional("application", t.application);
}

template <class O>
constexpr void Bind(O& o, Topology& t) {
  o.Optional("level", t.level);
  o.Optional("required", t.required);
  o.Optional("wait", t.wait);
}

template <class O>
constexpr void Bind(O& o, Checkpoint& t) {
  o.Optional("interval", t.interval);
  o.Optional("save", t.save);
  o.Optional("restart", t.restart);
}

template <class O>
constexpr void Bind(O& o, Holding& t) {
  o.Optional("node", t.node);
  o.Optional("devices", t.devices);
  o.Optional("milli", t.milli);
  o.Optional("profile", t.profile);
  o.Optional("start", t.start);
  o.Optional("isolation", t.isolation);
  o.Optional("tenant", t.tenant);
  o.Optional("cpu_milli", t.cpu_milli);
  o.Optional("memory_mib", t.memory_mib);
  o.Optional("device_mib", t.device_mib);
}

template <class O>
constexpr void Bind(O& o, MemberAt& t) {
  o.Optional("role", t.role);
  o.Optional("rank", t.rank);
  o.Inline(t.holding);
}

template <class O>
constexpr void Bind(O& o, Job& t) {
  o.Required("id", t.id);
  o.Optional("queue", t.queue);
  o.Optional("user", t.user);
  o.Optional("tenant", t.tenant);
  o.Optional("application", t.application);
  o.Optional("work", t.work);
  o.Optional("priority", t.priority);
  o.Optional("submitted", t.submitted);
  o.Required("roles", t.roles);
  o.Optional("topology", t.topology);
  o.Optional("spread", t.spread);
  o.Optional("spread_over", t.spread_over);
  o.Optional("anti_affinity", t.anti_affinity);
  o.Optional("preemptible", t.preemptible);
  o.Optional("never_preempts", t.never_preempts);
  o.Optional("checkpoint", t.checkpoint);
  o.Optional("estimate", t.estimate);
  o.Optional("limit", t.limit);
  o.Optional("not_before", t.not_before);
  o.Optional("after", t.after);
  o.Optional("array", t.array);
  o.Optional("max_running", t.max_running);
  o.Optional("idle_timeout", t.idle_timeout);
  o.Optional("restart_budget", t.restart_budget);
  o.Optional("resources", t.resources);
  o.Optional("pinned", t.pinned);
}

}  // namespace scheduler
