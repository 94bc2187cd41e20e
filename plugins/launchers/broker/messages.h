// What the gateway and its launch broker say to each other, as JSON.
//
// Every question is an object with `ask`; every answer has either `error` (a message) and `code`, or what was
// asked for. The broker takes questions for what they are: words of a process that may have been taken over.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugins/launchers/run_host.h"

namespace plugins::launchers::ask {

// Once, before anything listens. Answer: `cgroups`, `users`, in the order of their names.
struct Seal {
  std::string token{};
  std::string wrapper{};
  std::vector<std::string> users{};
  uid_t owner = 0;
  gid_t owner_group = 0;
};

void to_json(nlohmann::json& json, const Seal& seal);
void from_json(const nlohmann::json& json, Seal& seal);

}  // namespace plugins::launchers::ask

namespace plugins::launchers {

void to_json(nlohmann::json& json, const RunUser& user);
void from_json(const nlohmann::json& json, RunUser& user);
void to_json(nlohmann::json& json, const RunLimits& limits);
void from_json(const nlohmann::json& json, RunLimits& limits);
void to_json(nlohmann::json& json, const RunOrder& order);
void from_json(const nlohmann::json& json, RunOrder& order);
void to_json(nlohmann::json& json, const RunMark& mark);
void from_json(const nlohmann::json& json, RunMark& mark);

nlohmann::json ErrorAnswer(const absl::Status& status);
// OK when the answer is no error.
absl::Status StatusOf(const nlohmann::json& answer);

}  // namespace plugins::launchers
