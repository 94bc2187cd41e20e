#include "gateway/control/gateway_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "conf/json_dump.h"
#include "conf/text.h"

namespace gateway::control {
namespace {

using nlohmann::json;

// The models to tell of.
std::vector<std::string_view> Busiest(const DemandByModel& demand) {
  std::vector<std::string_view> models;
  models.reserve(demand.size());
  for (const auto& [model, at] : demand) models.push_back(model);
  if (models.size() <= kMostModelsInRecord) return models;
  const auto weight = [&](std::string_view model) {
    const DemandAt& at = demand.find(model)->second;
    return std::tuple(at.waiting, at.active, at.work_ns, model);
  };
  std::ranges::sort(models, std::ranges::greater(), weight);
  models.resize(kMostModelsInRecord);
  return models;
}

json Written(const DemandAt& at) {
  return {{"work_ns", at.work_ns},
          {"came", at.came},
          {"in_time", at.in_time},
          {"late", at.late},
          {"hopeless", at.hopeless},
          {"held_work_ns", at.held_work_ns},
          {"active", at.active},
          {"waiting", at.waiting},
          {"oldest_ms", conf::ToMillis(at.oldest)},
          {"lines", at.lines},
          {"oldest_line_ms", conf::ToMillis(at.oldest_line)}};
}

DemandAt ReadDemand(const json& in) {
  DemandAt at;
  at.work_ns = in.at("work_ns").get<uint64_t>();
  at.came = in.at("came").get<uint64_t>();
  at.in_time = in.at("in_time").get<uint64_t>();
  at.late = in.at("late").get<uint64_t>();
  at.hopeless = in.at("hopeless").get<uint64_t>();
  at.held_work_ns = in.at("held_work_ns").get<uint64_t>();
  at.active = in.at("active").get<uint64_t>();
  at.waiting = in.at("waiting").get<uint64_t>();
  at.oldest = std::chrono::milliseconds(in.at("oldest_ms").get<int64_t>());
  at.lines = in.value("lines", uint64_t{0});  // a gateway of an earlier version tells none
  at.oldest_line = std::chrono::milliseconds(in.value("oldest_line_ms", int64_t{0}));
  return at;
}

}  // namespace

std::string BodyOf(const GatewayRecord& record) {
  json out = {{"start", record.start},     {"version", record.version},
              {"address", record.address}, {"since_us", conf::ToUnixMicros(record.since)},
              {"epoch", record.epoch},     {"followed", record.followed}};
  if (!record.id.empty()) out["id"] = record.id;
  if (!record.public_key.empty()) out["public_key"] = record.public_key;
  json leaving = json::object();
  for (const auto& [replica, requests] : record.leaving) {
    if (leaving.size() >= kMostLeavingInRecord) break;
    leaving[replica] = requests;
  }
  if (!leaving.empty()) out["leaving"] = std::move(leaving);
  json demand = json::object();
  for (const std::string_view model : Busiest(record.demand))
    demand[std::string(model)] = Written(record.demand.find(model)->second);
  if (!demand.empty()) out["demand"] = std::move(demand);
  return conf::DumpJson(out);
}

absl::StatusOr<GatewayRecord> ReadGateway(std::string_view name, std::string_view body) {
  GatewayRecord record;
  record.name = name;
  try {
    const json in = json::parse(body);
    record.id = in.value("id", "");
    record.public_key = in.value("public_key", "");
    record.start = in.at("start").get<std::string>();
    record.version = in.at("version").get<std::string>();
    record.address = in.at("address").get<std::string>();
    record.since = conf::FromUnixMicros(in.at("since_us").get<int64_t>());
    record.epoch = in.at("epoch").get<uint64_t>();
    record.followed = in.at("followed").get<uint64_t>();
    if (in.contains("leaving"))
      for (const auto& [replica, requests] : in["leaving"].items())
        record.leaving[replica] = requests.get<uint32_t>();
    if (in.contains("demand"))
      for (const auto& [model, at] : in["demand"].items()) record.demand[model] = ReadDemand(at);
  } catch (const std::exception& error) {
    return absl::DataLossError(
        conf::Abseil(fmt::format("the record of the gateway {} cannot be read: {}", name, error.what())));
  }
  return record;
}

}  // namespace gateway::control
