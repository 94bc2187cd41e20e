#include "gateway/config/device_power.h"

#include <absl/strings/str_replace.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/node_url.h"
#include "gateway/net/url.h"

namespace gateway::config {
namespace {

constexpr double kMostWattsOfCluster = 1e9;
constexpr double kMostPerKwh = 1e6;
constexpr size_t kHoursOfDay = 24;

}  // namespace

double ByHour::At(conf::TimePoint at) const {
  if (values.empty()) return 0;
  const auto hour = std::chrono::floor<std::chrono::hours>(at.time_since_epoch()).count() % 24;
  return values[values.size() == 1 ? 0 : static_cast<size_t>(hour < 0 ? hour + 24 : hour)];
}

void Read(const conf::Value& value, ByHour& out) {
  std::vector<double> values;
  if (value.kind() == conf::Kind::kSequence) {
    conf::Read(value, values);
    if (values.size() != kHoursOfDay)
      return value.Error("must be one number, or 24: one for each hour of the day, in UTC");
  } else {
    values.resize(1);
    conf::Read(value, values.front());
  }
  const auto wrong = [](double each) { return !(each >= 0 && each <= kMostPerKwh); };
  if (std::ranges::any_of(values, wrong)) return value.Error("must be from 0 to 1000000");
  out.values = std::move(values);
}

void Write(conf::Writer& writer, const ByHour& in) {
  if (in.values.size() == 1) {
    conf::Write(writer, in.values.front());
  } else if (!in.values.empty()) {
    conf::Write(writer, in.values);
  }
}

void Bind(conf::Object& o, Energy& energy) {
  o.Optional("usd_per_kwh", energy.usd_per_kwh);
  o.Optional("grams_co2_per_kwh", energy.grams_co2_per_kwh);
}

void Bind(conf::Object& o, DeviceMetrics& metrics) {
  o.Required("url", metrics.url, conf::NotEmpty());
  o.Optional("tls", metrics.tls);
  o.Optional("interval", metrics.interval, UpToADay());
  if (metrics.interval < std::chrono::seconds(1)) o.Error("must be at least 1s", "interval");
  if (metrics.url.empty()) return;
  if (!net::ParseUrl(absl::StrReplaceAll(metrics.url, {{conf::Abseil(kNodeInUrl), "node"}})).ok())
    o.Error("must be an http or https URL, such as http://{node}:9400/metrics", "url");
}

void Bind(conf::Object& o, CapLowBands& caps) {
  o.Optional("above", caps.above, conf::Range{0.1, 1.0});
  o.Optional("least", caps.least, conf::Range{0.1, 1.0});
}

void Bind(conf::Object& o, PowerBudget& budget) {
  o.Optional("cap_low_bands", budget.cap_low_bands);
  o.Optional("cluster_watts", budget.cluster_watts, conf::Range{0.0, kMostWattsOfCluster});
  o.Optional("domain_watts", budget.domain_watts);
  for (const auto& [domain, watts] : budget.domain_watts) {
    if (!(watts > 0 && watts <= kMostWattsOfCluster))
      o.Error("must be watts from above 0 to 1000000000 for each domain", "domain_watts");
  }
}

std::vector<std::string> ApplyPowerBudget(const PowerBudget& budget, scheduler::Cluster& cluster) {
  std::vector<std::string> unknown;
  for (scheduler::Domain& domain : cluster.fabric.domains) {
    if (domain.parent == scheduler::kNone && budget.cluster_watts > 0)
      domain.power_budget_watts = budget.cluster_watts;
  }
  for (const auto& [name, watts] : budget.domain_watts) {
    bool known = false;
    for (scheduler::Domain& domain : cluster.fabric.domains) {
      if (domain.name != name) continue;
      domain.power_budget_watts = watts;
      known = true;
    }
    if (!known) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace gateway::config
