#include "gateway/control/lead/gateway_record.h"

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

// The models that the record has.
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

json Written(const TriesAt& at) {
  return {at.tries,
          at.failures,
          at.first_token.count,
          at.first_token.sum,
          at.first_token.sum_of_squares,
          at.token_time.count,
          at.token_time.sum,
          at.token_time.sum_of_squares};
}

TriesAt ReadTries(const json& in) {
  const auto cell = [&](size_t i) { return in.at(i).get<uint64_t>(); };
  return {.tries = cell(0),
          .failures = cell(1),
          .first_token = {cell(2), cell(3), cell(4)},
          .token_time = {cell(5), cell(6), cell(7)}};
}

json WrittenTries(const TriesByModel& tries) {
  json out = json::object();
  size_t replicas = 0;
  for (const auto& [model, of_model] : tries) {
    json& into = out[model] = json::object();
    for (const auto& [replica, at] : of_model) {
      if (++replicas <= kMostTriesInRecord) into[replica] = Written(at);
    }
  }
  return out;
}

json WrittenAdapters(const AdapterUses& adapters) {
  json out = json::object();
  for (const bool waits : {true, false}) {
    for (const auto& [id, use] : adapters) {
      if (use.waits != waits || out.size() >= kMostAdaptersInRecord) continue;
      json& into = out[id] = json::object();
      if (use.waits) into["waits"] = true;
      if (use.idle) into["idle_ms"] = conf::ToMillis(*use.idle);
      if (!use.in_flight.empty()) into["in_flight"] = use.in_flight;
    }
  }
  return out;
}

AdapterUse ReadAdapterUse(const json& in) {
  AdapterUse use;
  use.waits = in.value("waits", false);
  if (in.contains("idle_ms")) use.idle = std::chrono::milliseconds(in["idle_ms"].get<int64_t>());
  if (in.contains("in_flight"))
    for (const auto& [replica, requests] : in["in_flight"].items())
      use.in_flight[replica] = requests.get<uint32_t>();
  return use;
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
  if (!record.tries.empty()) out["tries"] = WrittenTries(record.tries);
  if (!record.adapters.empty()) out["adapters"] = WrittenAdapters(record.adapters);
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
    // A gateway of an earlier version reports neither.
    if (in.contains("tries"))
      for (const auto& [model, of_model] : in["tries"].items()) {
        TriesByReplica& into = record.tries[model];
        for (const auto& [replica, at] : of_model.items()) into[replica] = ReadTries(at);
      }
    if (in.contains("adapters"))
      for (const auto& [id, use] : in["adapters"].items()) record.adapters[id] = ReadAdapterUse(use);
  } catch (const std::exception& error) {
    return absl::DataLossError(
        conf::Abseil(fmt::format("the record of the gateway {} cannot be read: {}", name, error.what())));
  }
  return record;
}

}  // namespace gateway::control
