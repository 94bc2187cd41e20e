#include "plugins/launchers/broker/messages.h"

#include "conf/text.h"

namespace plugins::launchers {

using nlohmann::json;

void to_json(json& out, const RunUser& user) {
  out = {{"name", user.name},
         {"uid", user.uid},
         {"gid", user.gid},
         {"groups", user.groups},
         {"home", user.home}};
}

void from_json(const json& in, RunUser& user) {
  in.at("name").get_to(user.name);
  in.at("uid").get_to(user.uid);
  in.at("gid").get_to(user.gid);
  in.at("groups").get_to(user.groups);
  in.at("home").get_to(user.home);
}

void to_json(json& out, const RunLimits& limits) {
  out = {{"processes", limits.processes},
         {"open_files", limits.open_files},
         {"file_bytes", limits.file_bytes},
         {"memory_mib", limits.memory_mib}};
}

void from_json(const json& in, RunLimits& limits) {
  in.at("processes").get_to(limits.processes);
  in.at("open_files").get_to(limits.open_files);
  in.at("file_bytes").get_to(limits.file_bytes);
  in.at("memory_mib").get_to(limits.memory_mib);
}

void to_json(json& out, const RunOrder& order) {
  out = {{"id", order.id},
         {"user", order.user},
         {"program", order.program},
         {"argv", order.argv},
         {"env", order.env},
         {"directory", order.directory},
         {"cgroup", order.cgroup},
         {"record", order.record},
         {"result", order.result},
         {"log", order.log},
         {"log_bytes", order.log_bytes},
         {"log_floor", order.log_floor},
         {"grace", order.grace.count()},
         {"limits", order.limits}};
}

void from_json(const json& in, RunOrder& order) {
  in.at("id").get_to(order.id);
  in.at("user").get_to(order.user);
  in.at("program").get_to(order.program);
  in.at("argv").get_to(order.argv);
  in.at("env").get_to(order.env);
  in.at("directory").get_to(order.directory);
  in.at("cgroup").get_to(order.cgroup);
  in.at("record").get_to(order.record);
  in.at("result").get_to(order.result);
  in.at("log").get_to(order.log);
  in.at("log_bytes").get_to(order.log_bytes);
  in.at("log_floor").get_to(order.log_floor);
  order.grace = conf::Duration(in.at("grace").get<conf::Duration::rep>());
  in.at("limits").get_to(order.limits);
}

void to_json(json& out, const RunMark& mark) {
  out = {{"id", mark.id},
         {"log", mark.log},
         {"cgroup", mark.cgroup},
         {"wrapper", mark.wrapper},
         {"leader", mark.leader},
         {"start_ticks", mark.start_ticks},
         {"session_is_ours", mark.session_is_ours}};
  if (mark.user) out["user"] = *mark.user;
}

void from_json(const json& in, RunMark& mark) {
  in.at("id").get_to(mark.id);
  in.at("log").get_to(mark.log);
  in.at("cgroup").get_to(mark.cgroup);
  in.at("wrapper").get_to(mark.wrapper);
  in.at("leader").get_to(mark.leader);
  in.at("start_ticks").get_to(mark.start_ticks);
  in.at("session_is_ours").get_to(mark.session_is_ours);
  if (in.contains("user")) mark.user = in["user"].get<uid_t>();
}

json ErrorAnswer(const absl::Status& status) {
  return {{"error", conf::Std(status.message())}, {"code", status.raw_code()}};
}

absl::Status StatusOf(const json& answer) {
  const auto error = answer.find("error");
  if (error == answer.end()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(answer.value("code", static_cast<int>(absl::StatusCode::kUnknown))),
          error->is_string() ? error->get<std::string>() : error->dump()};
}

namespace ask {

void to_json(json& out, const Seal& seal) {
  out = {{"token", seal.token},
         {"wrapper", seal.wrapper},
         {"users", seal.users},
         {"owner", seal.owner},
         {"owner_group", seal.owner_group}};
}

void from_json(const json& in, Seal& seal) {
  in.at("token").get_to(seal.token);
  in.at("wrapper").get_to(seal.wrapper);
  in.at("users").get_to(seal.users);
  in.at("owner").get_to(seal.owner);
  in.at("owner_group").get_to(seal.owner_group);
}

}  // namespace ask
}  // namespace plugins::launchers
