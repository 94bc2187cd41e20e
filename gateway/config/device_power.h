// What devices measure and draw, in section `scaling`: `device_metrics`, exporters that report the devices of
// other machines; `energy`, what a kilowatt-hour costs and emits; `power`, how much the cluster and its racks
// may draw.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/config/types.h"
#include "scheduler/model.h"

namespace gateway::config {

// Exporters of figures of devices, as Prometheus text by DCGM's names.
struct DeviceMetrics {
  std::string
      url;  // one that tells of all nodes; with "{node}", one for each node of the cluster, by its name
  ClientTls tls;
  conf::Duration interval = std::chrono::seconds(15);
};
void Bind(conf::Object& object, DeviceMetrics& out);

// A value for each hour of the day, in UTC: one for all of them, or 24.
struct ByHour {
  std::vector<double> values;  // empty: 0
  double At(conf::TimePoint at) const;
};
void Read(const conf::Value& value, ByHour& out);
void Write(conf::Writer& writer, const ByHour& in);

struct Energy {
  ByHour usd_per_kwh;
  ByHour grams_co2_per_kwh;
};
void Bind(conf::Object& object, Energy& out);

// Lower power limits for devices that only work of the priority batch holds, while a budget is short.
struct CapLowBands {
  double above = 0.9;  // the part of a budget that may be drawn before
  double least = 0.5;  // the lowest limit, as a part of the device's usual one
};
void Bind(conf::Object& object, CapLowBands& out);

// 0, and domains that are not named: no bound, or that of the cluster file.
struct PowerBudget {
  double cluster_watts = 0;
  std::map<std::string, double> domain_watts;  // by the name of a leaf, spine or other domain of the fabric
  std::optional<CapLowBands> cap_low_bands;    // absent: no power limit is changed
};
void Bind(conf::Object& object, PowerBudget& out);

// Gives the domains of the cluster these budgets. Returns the names that the cluster does not have.
std::vector<std::string> ApplyPowerBudget(const PowerBudget& budget, scheduler::Cluster& cluster);

}  // namespace gateway::config
