#include "gateway/control/fleet_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "gateway/ledger/files.h"

namespace gateway::control {
namespace {

using nlohmann::json;
using plugins::launchers::Grant;

constexpr size_t kMostBytes = size_t{64} << 20;

auto Tied(const Grant& g) {
  return std::tie(g.node, g.kind, g.devices, g.milli, g.partition, g.partition_start, g.cpu_milli,
                  g.memory_mib, g.device_mib);
}

json Written(const FleetEntry& entry) {
  const Grant& grant = entry.grant;
  json out = {{"run", entry.run},
              {"model", entry.model},
              {"launched_us", conf::ToUnixMicros(entry.launched)},
              {"node", grant.node},
              {"cpu_milli", grant.cpu_milli},
              {"memory_mib", grant.memory_mib}};
  if (!grant.devices.empty()) {
    out["kind"] = grant.kind;
    out["devices"] = grant.devices;
    out["milli"] = grant.milli;
    out["device_mib"] = grant.device_mib;
  }
  if (!grant.partition.empty()) {
    out["partition"] = grant.partition;
    out["partition_start"] = grant.partition_start;
  }
  return out;
}

FleetEntry Read(const json& in) {
  FleetEntry entry;
  entry.run = in.at("run").get<std::string>();
  entry.model = in.at("model").get<std::string>();
  entry.launched = conf::FromUnixMicros(in.at("launched_us").get<int64_t>());
  Grant& grant = entry.grant;
  grant.node = in.at("node").get<std::string>();
  grant.cpu_milli = in.at("cpu_milli").get<int64_t>();
  grant.memory_mib = in.at("memory_mib").get<int64_t>();
  if (in.contains("devices")) {
    grant.kind = in.at("kind").get<std::string>();
    grant.devices = in.at("devices").get<std::vector<uint8_t>>();
    grant.milli = in.at("milli").get<uint16_t>();
    grant.device_mib = in.value("device_mib", 0);
  }
  if (in.contains("partition")) {
    grant.partition = in.at("partition").get<std::string>();
    grant.partition_start = in.at("partition_start").get<uint8_t>();
  }
  return entry;
}

}  // namespace

bool FleetEntry::operator==(const FleetEntry& other) const {
  return run == other.run && model == other.model && launched == other.launched &&
         Tied(grant) == Tied(other.grant);
}

absl::StatusOr<std::vector<FleetEntry>> ReadFleet(const std::string& path) {
  absl::StatusOr<std::string> text = ledger::ReadFile(path, kMostBytes);
  std::vector<FleetEntry> entries;
  if (absl::IsNotFound(text.status())) return entries;
  if (!text.ok()) return text.status();
  try {
    const json file = json::parse(*text);
    const json& runs = file.at("replicas");
    entries.reserve(runs.size());
    for (const json& run : runs) entries.push_back(Read(run));
  } catch (const json::exception& error) {
    return absl::DataLossError(fmt::format("{}: {}", path, error.what()));
  }
  return entries;
}

absl::Status WriteFleet(const std::string& path, const std::vector<FleetEntry>& entries) {
  json runs = json::array();
  for (const FleetEntry& entry : entries) runs.push_back(Written(entry));
  return ledger::ReplaceFile(path, json{{"replicas", std::move(runs)}}.dump(1) + "\n");
}

}  // namespace gateway::control
