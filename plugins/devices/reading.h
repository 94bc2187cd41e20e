// Reading: what a device measured at one moment. A figure that its tool does not give is absent, and costs no
// other figure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"

namespace plugins::devices {

// Why a device runs slower than it could.
struct Throttling {
  bool power_cap = false;    // it draws up to its limit: ordinary under load
  bool thermal = false;      // it, or its memory, is too hot
  bool power_brake = false;  // the machine's power supply slows it down
  bool slowdown = false;     // its hardware has slowed it down, for one of the two above or another reason
  friend bool operator==(const Throttling&, const Throttling&) = default;
};

struct DeviceProcess {
  uint32_t pid = 0;
  std::optional<int64_t> memory_mib{};
  friend bool operator==(const DeviceProcess&, const DeviceProcess&) = default;
};

struct Reading {
  std::string key{};   // KeyOf() of the device, or its UUID
  std::string host{};  // where an exporter names it; empty: this machine
  std::optional<uint32_t> index{};

  bool lost = false;                    // its driver cannot reach it
  std::optional<double> utilization{};  // 0 to 1, of the last second or so
  std::optional<int64_t> memory_used_mib{};
  std::optional<int64_t> memory_total_mib{};
  std::optional<double> watts{};
  std::optional<double> watts_limit{};  // the most that it may draw
  std::optional<double> celsius{};
  std::optional<uint32_t> clock_mhz{};  // of its cores
  std::optional<uint32_t> memory_clock_mhz{};
  std::optional<Throttling> throttling{};
  // Since its driver was loaded.
  std::optional<uint64_t> ecc_corrected{};
  std::optional<uint64_t> ecc_uncorrected{};
  std::optional<uint64_t> link_errors{};  // of all its links
  std::optional<uint64_t> energy_mj{};    // millijoules
  std::optional<uint64_t> xid{};          // the last one, where an exporter reports it; 0: none
  std::vector<DeviceProcess> processes{};
  std::vector<std::string> errors{};  // figures that its tool should give and could not

  friend bool operator==(const Reading&, const Reading&) = default;
};

struct Readings {
  conf::TimePoint at{};  // when they were taken; before the epoch's first second: never
  std::vector<Reading> devices{};
  std::vector<std::string> problems{};  // with the tool as a whole
};

}  // namespace plugins::devices
