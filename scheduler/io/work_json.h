// The fields of work.h as JSON has them: names and units are the structs' own.
#pragma once

#include <array>

#include "scheduler/io/json_reader.h"
#include "scheduler/io/json_writer.h"
#include "scheduler/work.h"

namespace scheduler::io {

template <>
inline constexpr std::array kEnumerators<WorkClass> = {
    WorkClass::kTraining, WorkClass::kInference, WorkClass::kBatch, WorkClass::kArray, WorkClass::kNotebook};
template <>
inline constexpr std::array kEnumerators<Isolation> = {Isolation::kNone, Isolation::kTenant,
                                                       Isolation::kNode};

template <class A>
constexpr void Fields(A& a, const DeviceAsk*) {
  a.Optional("kinds", &DeviceAsk::kinds);
  a.Optional("count", &DeviceAsk::count);
  a.Optional("milli", &DeviceAsk::milli);
  a.Optional("profile", &DeviceAsk::profile);
  a.Optional("memory_mib", &DeviceAsk::memory_mib);
}

template <class A>
constexpr void Fields(A& a, const LabelRule*) {
  a.Required("key", &LabelRule::key);
  a.Required("values", &LabelRule::values);
}

template <class A>
constexpr void Fields(A& a, const Ask*) {
  a.Optional("devices", &Ask::devices);
  a.Optional("cpu_milli", &Ask::cpu_milli);
  a.Optional("memory_mib", &Ask::memory_mib);
  a.Optional("require", &Ask::require);
  a.Optional("avoid", &Ask::avoid);
  a.Optional("prefer", &Ask::prefer);
  a.Optional("isolation", &Ask::isolation);
}

template <class A>
constexpr void Fields(A& a, const Role*) {
  a.Optional("name", &Role::name);
  a.Optional("count", &Role::count);
  a.Always("min_count", &Role::min_count);
  a.Inline(&Role::ask);
}

// Without min_count a role is a gang: all of its members or none.
inline void ReadJson(const Json& in, Role& out, JsonFaults& faults) {
  ReadJson<Role>(in, out, faults);
  if (in.is_object() && !in.contains("min_count")) out.min_count = out.count;
}

template <class A>
constexpr void Fields(A& a, const Topology*) {
  a.Optional("level", &Topology::level);
  a.Optional("required", &Topology::required);
  a.Optional("wait", &Topology::wait);
}

template <class A>
constexpr void Fields(A& a, const Checkpoint*) {
  a.Optional("interval", &Checkpoint::interval);
  a.Optional("save", &Checkpoint::save);
  a.Optional("restart", &Checkpoint::restart);
}

template <class A>
constexpr void Fields(A& a, const Job*) {
  a.Required("id", &Job::id);
  a.Optional("queue", &Job::queue);
  a.Optional("user", &Job::user);
  a.Optional("tenant", &Job::tenant);
  a.Optional("work", &Job::work);
  a.Optional("priority", &Job::priority);
  a.Optional("submitted", &Job::submitted);
  a.Required("roles", &Job::roles);
  a.Optional("topology", &Job::topology);
  a.Optional("spread", &Job::spread);
  a.Optional("anti_affinity", &Job::anti_affinity);
  a.Optional("preemptible", &Job::preemptible);
  a.Optional("never_preempts", &Job::never_preempts);
  a.Optional("checkpoint", &Job::checkpoint);
  a.Optional("estimate", &Job::estimate);
  a.Optional("limit", &Job::limit);
  a.Optional("not_before", &Job::not_before);
  a.Optional("after", &Job::after);
  a.Optional("array", &Job::array);
  a.Optional("max_running", &Job::max_running);
  a.Optional("idle_timeout", &Job::idle_timeout);
  a.Optional("restart_budget", &Job::restart_budget);
}

}  // namespace scheduler::io
