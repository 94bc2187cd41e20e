#include "plugins/devices/dcgm.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>

#include "conf/text.h"
#include "plugins/engines/prometheus_text.h"

namespace plugins::devices {
namespace {

// DCGM_FI_DEV_CLOCKS_EVENT_REASONS, in the bits of NVML.
constexpr uint64_t kDcgmPowerCap = 0x4;
constexpr uint64_t kDcgmSlowdown = 0x8;
constexpr uint64_t kDcgmThermal = 0x20 | 0x40;
constexpr uint64_t kDcgmPowerBrake = 0x80;

using Use = void (*)(Reading& reading, double value);

uint64_t Count(double value) {
  return static_cast<uint64_t>(std::llround(value));
}

// Memory without a total is free + used, plus the reserved amount where it is reported.
const std::map<std::string_view, Use>& Uses() {
  static const auto* uses = new std::map<std::string_view, Use>{
      {"DCGM_FI_DEV_GPU_UTIL", [](Reading& r, double v) { r.utilization = v / 100; }},
      {"DCGM_FI_DEV_FB_USED", [](Reading& r, double v) { r.memory_used_mib = std::llround(v); }},
      {"DCGM_FI_DEV_FB_TOTAL", [](Reading& r, double v) { r.memory_total_mib = std::llround(v); }},
      {"DCGM_FI_DEV_POWER_USAGE", [](Reading& r, double v) { r.watts = v; }},
      {"DCGM_FI_DEV_ENFORCED_POWER_LIMIT", [](Reading& r, double v) { r.watts_limit = v; }},
      {"DCGM_FI_DEV_POWER_MGMT_LIMIT",
       [](Reading& r, double v) {
         if (!r.watts_limit) r.watts_limit = v;
       }},
      {"DCGM_FI_DEV_GPU_TEMP", [](Reading& r, double v) { r.celsius = v; }},
      {"DCGM_FI_DEV_SM_CLOCK", [](Reading& r, double v) { r.clock_mhz = static_cast<uint32_t>(Count(v)); }},
      {"DCGM_FI_DEV_MEM_CLOCK",
       [](Reading& r, double v) { r.memory_clock_mhz = static_cast<uint32_t>(Count(v)); }},
      {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", [](Reading& r, double v) { r.energy_mj = Count(v); }},
      {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", [](Reading& r, double v) { r.ecc_corrected = Count(v); }},
      {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", [](Reading& r, double v) { r.ecc_uncorrected = Count(v); }},
      {"DCGM_FI_DEV_XID_ERRORS", [](Reading& r, double v) { r.xid = Count(v); }},
  };
  return *uses;
}

constexpr std::string_view kLinkErrors[] = {
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"};

void AddThrottling(Reading& reading, uint64_t bits) {
  reading.throttling = {.power_cap = (bits & kDcgmPowerCap) != 0,
                        .thermal = (bits & kDcgmThermal) != 0,
                        .power_brake = (bits & kDcgmPowerBrake) != 0,
                        .slowdown = (bits & kDcgmSlowdown) != 0};
}

std::string HostOf(const engines::Sample& sample) {
  for (const std::string_view label : {"Hostname", "hostname", "node", "instance"}) {
    const std::optional<std::string_view> host = sample.Label(label);
    if (host && !host->empty()) return std::string(host->substr(0, host->find(':')));
  }
  return {};
}

}  // namespace

Readings ParseDcgm(std::string_view text) {
  Readings out;
  std::map<std::string, size_t, std::less<>> places;
  std::map<size_t, double> free;
  bool too_many = false;
  engines::ForEachSample(text, [&](const engines::Sample& sample) {
    if (!sample.name.starts_with("DCGM_FI_DEV_") || !std::isfinite(sample.value) || sample.value < 0) return;
    if (sample.value > 9e15) return;  // DCGM's blanks: no figure
    if (const auto mig = sample.Label("GPU_I_ID"); mig && !mig->empty()) return;
    const std::optional<std::string_view> uuid = sample.Label("UUID");
    const std::optional<std::string_view> number = sample.Label("gpu");
    if ((!uuid || uuid->empty()) && !number) return;
    const std::string host = HostOf(sample);
    const std::string key = fmt::format("{}\n{}", host, uuid && !uuid->empty() ? *uuid : *number);
    const auto [place, added] = places.try_emplace(key, out.devices.size());
    if (added) {
      if (out.devices.size() >= kMaxExportedDevices) {
        places.erase(place);
        too_many = true;
        return;
      }
      Reading& made = out.devices.emplace_back();
      made.host = host;
      if (uuid) made.key = *uuid;
      if (number) made.index = conf::ReadNumber<uint32_t>(*number);
    }
    Reading& reading = out.devices[place->second];
    if (const auto use = Uses().find(sample.name); use != Uses().end()) {
      use->second(reading, sample.value);
    } else if (sample.name == "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" ||
               sample.name == "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS") {
      AddThrottling(reading, Count(sample.value));
    } else if (sample.name == "DCGM_FI_DEV_FB_FREE" || sample.name == "DCGM_FI_DEV_FB_RESERVED") {
      free[place->second] += sample.value;
    } else if (std::ranges::find(kLinkErrors, sample.name) != std::end(kLinkErrors)) {
      reading.link_errors = reading.link_errors.value_or(0) + Count(sample.value);
    }
  });
  for (const auto& [place, mib] : free) {
    Reading& reading = out.devices[place];
    if (!reading.memory_total_mib && reading.memory_used_mib)
      reading.memory_total_mib = *reading.memory_used_mib + std::llround(mib);
  }
  if (too_many) out.problems.push_back(fmt::format("it reports more than {} devices", kMaxExportedDevices));
  return out;
}

}  // namespace plugins::devices
