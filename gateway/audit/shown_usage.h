// A row of usage as people are shown it, by the admin API and the command line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "conf/fields.h"

namespace gateway {

struct ShownUsage {
  static constexpr std::string_view kSchema = "UsageRow";

  // What the usage is grouped by; the others are absent.
  std::optional<std::string> tenant, key, model, replica, api, reason, hour, day, job;
  int64_t requests = 0;
  int64_t errors = 0;
  int64_t failed = 0;  // of these, by an engine or the gateway
  int64_t input_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cost_micro_usd = 0;
  std::map<std::string, double> device_seconds;  // by kind of device
  // Where devices are measured; cost and emissions by the tariff.
  std::optional<double> energy_kwh;
  std::optional<int64_t> energy_micro_usd;
  std::optional<double> co2_grams;
};

template <class O>
constexpr void Bind(O& o, ShownUsage& usage) {
  o.Optional("tenant", usage.tenant);
  o.Optional("key", usage.key);
  o.Optional("model", usage.model);
  o.Optional("replica", usage.replica);
  o.Optional("api", usage.api);
  o.Optional("reason", usage.reason);
  o.Optional("hour", usage.hour);
  o.Optional("day", usage.day);
  o.Optional("job", usage.job);
  o.Required("requests", usage.requests);
  o.Required("errors", usage.errors);
  o.Required("failed", usage.failed);
  o.Required("input_tokens", usage.input_tokens);
  o.Required("cached_tokens", usage.cached_tokens);
  o.Required("output_tokens", usage.output_tokens);
  o.Required("cost_micro_usd", usage.cost_micro_usd);
  o.Required("device_seconds", usage.device_seconds);
  o.Optional("energy_kwh", usage.energy_kwh);
  o.Optional("energy_micro_usd", usage.energy_micro_usd);
  o.Optional("co2_grams", usage.co2_grams);
}

}  // namespace gateway
