#include "gateway/control/models/rollout.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "conf/words.h"

namespace gateway::control {
namespace {

using nlohmann::json;

constexpr conf::Word<RolloutState> kRolloutStates[] = {{"running", RolloutState::kRunning},
                                                       {"promoted", RolloutState::kPromoted},
                                                       {"rolled_back", RolloutState::kRolledBack},
                                                       {"aborted", RolloutState::kAborted}};

}  // namespace

std::string_view Name(RolloutState state) {
  return conf::WordOf(kRolloutStates, state);
}

VersionRole RoleOf(const config::ModelPolicy& policy, const Rollout* rollout, std::string_view version) {
  if (!policy.rollout) return VersionRole::kServes;
  const bool is_new = version == policy.rollout->version;
  const bool begun = rollout != nullptr && rollout->version == policy.rollout->version;
  if (begun && rollout->state == RolloutState::kPromoted)
    return is_new ? VersionRole::kServes : VersionRole::kLeaves;
  if (!is_new) return VersionRole::kServes;
  return begun && rollout->state != RolloutState::kRunning ? VersionRole::kLeaves : VersionRole::kNew;
}

std::string VersionInForce(const config::ModelPolicy& policy, const Rollout* rollout) {
  const bool promoted = policy.rollout && rollout != nullptr && rollout->version == policy.rollout->version &&
                        rollout->state == RolloutState::kPromoted;
  return promoted ? policy.rollout->version : policy.version;
}

std::string BodyOf(const Rollout& rollout) {
  return conf::DumpJson(json{{"version", rollout.version},
                             {"state", Name(rollout.state)},
                             {"step", rollout.step},
                             {"open", rollout.open},
                             {"percent", rollout.percent},
                             {"began_us", conf::ToUnixMicros(rollout.began)},
                             {"since_us", conf::ToUnixMicros(rollout.since)},
                             {"why", rollout.why},
                             {"by", rollout.by}});
}

absl::StatusOr<Rollout> ReadRollout(const std::string& model, const std::string& body) {
  const json in = conf::ParseJson(body);
  try {
    Rollout rollout{.model = model,
                    .version = in.at("version").get<std::string>(),
                    .step = in.at("step").get<uint32_t>(),
                    .open = in.at("open").get<bool>(),
                    .percent = in.at("percent").get<double>(),
                    .began = conf::FromUnixMicros(in.at("began_us").get<int64_t>()),
                    .since = conf::FromUnixMicros(in.at("since_us").get<int64_t>()),
                    .why = in.at("why").get<std::string>(),
                    .by = in.at("by").get<std::string>()};
    const auto state = conf::ValueOf(kRolloutStates, in.at("state").get<std::string>());
    if (!state || !(rollout.percent >= 0 && rollout.percent <= 100))
      throw std::invalid_argument("its state or its percentage is invalid");
    rollout.state = *state;
    return rollout;
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("the rollout of {}: {}", model, error.what())));
  }
}

bool TakeRecord(const RolloutRecord& record, std::map<std::string, Rollout>& rollouts) {
  constexpr std::string_view kPrefix = "rollout.";
  if (!record.action.starts_with(kPrefix)) return false;
  const std::string_view action = record.action.substr(kPrefix.size());
  const json detail = conf::ParseJson(record.detail);
  if (!detail.is_object()) return true;
  const std::string model(record.subject);
  const auto before = rollouts.find(model);
  const bool begins = action == "begin" || before == rollouts.end();
  rollouts[model] = {.model = model,
                     .version = detail.value("version", ""),
                     .state = action == "promote"     ? RolloutState::kPromoted
                              : action == "roll_back" ? RolloutState::kRolledBack
                              : action == "abort"     ? RolloutState::kAborted
                                                      : RolloutState::kRunning,
                     .step = detail.value("step", 0U),
                     .open = action == "open",
                     .percent = detail.value("percent", 0.0),
                     .began = begins ? record.at : before->second.began,
                     .since = record.at,
                     .why = detail.value("reason", ""),
                     .by = std::string(record.actor)};
  return true;
}

std::string DetailOf(const Rollout& rollout) {
  return conf::DumpJson(json{{"version", rollout.version},
                             {"step", rollout.step},
                             {"percent", rollout.percent},
                             {"reason", rollout.why}});
}

}  // namespace gateway::control
