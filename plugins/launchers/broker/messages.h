// The messages between the gateway and its launch broker, as JSON.
//
// Every request is an object with `ask`; every answer has either `error` (a message) and `code`, or the result. The
// broker trusts no request: its sender may be under an attacker's control.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conf/json_tree.h"
#include "plugins/launchers/run_host.h"

namespace plugins::launchers {

template <class O>
constexpr void Bind(O& o, RunUser& user) {
  o.Required("name", user.name);
  o.Required("uid", user.uid);
  o.Required("gid", user.gid);
  o.Required("groups", user.groups);
  o.Required("home", user.home);
}

template <class O>
constexpr void Bind(O& o, RunLimits& limits) {
  o.Required("processes", limits.processes);
  o.Required("open_files", limits.open_files);
  o.Required("file_bytes", limits.file_bytes);
  o.Required("memory_mib", limits.memory_mib);
}

template <class O>
constexpr void Bind(O& o, RunOrder& order) {
  o.Required("id", order.id);
  o.Required("user", order.user);
  o.Required("program", order.program);
  o.Required("argv", order.argv);
  o.Required("env", order.env);
  o.Required("directory", order.directory);
  o.Required("cgroup", order.cgroup);
  o.Required("record", order.record);
  o.Required("result", order.result);
  o.Required("log", order.log);
  o.Required("log_bytes", order.log_bytes);
  o.Required("log_floor", order.log_floor);
  o.Required("grace", order.grace);
  o.Required("limits", order.limits);
}

template <class O>
constexpr void Bind(O& o, RunMark& mark) {
  o.Required("id", mark.id);
  o.NotWritten(mark.token);  // the broker has its own, of the seal
  o.Required("log", mark.log);
  o.Required("cgroup", mark.cgroup);
  o.Required("wrapper", mark.wrapper);
  o.Required("leader", mark.leader);
  o.Required("start_ticks", mark.start_ticks);
  o.Required("session_is_ours", mark.session_is_ours);
  o.Optional("user", mark.user);
}

// For nlohmann's conversions.
template <conf::HasFields T>
void to_json(nlohmann::json& out, const T& in) {
  out = conf::ToTree(in);
}
template <conf::HasFields T>
void from_json(const nlohmann::json& in, T& out) {
  conf::FromTree(in, out);
}

namespace ask {

// Once, before anything listens. Answer: `cgroups`, `users`, in the order of their names.
struct Seal {
  std::string token{};
  std::string wrapper{};
  std::vector<std::string> users{};
  uid_t owner = 0;
  gid_t owner_group = 0;
};

template <class O>
constexpr void Bind(O& o, Seal& seal) {
  o.Required("token", seal.token);
  o.Required("wrapper", seal.wrapper);
  o.Required("users", seal.users);
  o.Required("owner", seal.owner);
  o.Required("owner_group", seal.owner_group);
}

using launchers::from_json;
using launchers::to_json;

}  // namespace ask

nlohmann::json ErrorAnswer(const absl::Status& status);
// OK when the answer is no error.
absl::Status StatusOf(const nlohmann::json& answer);

}  // namespace plugins::launchers
