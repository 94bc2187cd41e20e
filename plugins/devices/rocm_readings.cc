#include "plugins/devices/rocm_readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "gateway/net/dynamic_library.h"
#include "plugins/devices/amdgpu_clocks.h"

namespace plugins::devices {
namespace {

// ---- The part of ROCm SMI that is read, after AMD's rocm_smi.h.

using RsmiStatus = uint32_t;  // 0: success
constexpr RsmiStatus kRsmiNotSupported = 2;
constexpr RsmiStatus kRsmiNoPermission = 4;
constexpr RsmiStatus kRsmiNotYetKnown = 9;  // RSMI_STATUS_NOT_YET_IMPLEMENTED
constexpr uint32_t kVram = 0;               // RSMI_MEM_TYPE_VRAM
constexpr uint32_t kJunction = 1;           // RSMI_TEMP_TYPE_JUNCTION
constexpr uint32_t kEdge = 0;               // RSMI_TEMP_TYPE_EDGE
constexpr uint32_t kCurrentTemperature = 0;
constexpr std::array<uint64_t, 3> kEccBlocks = {1, 2, 4};  // memory, SDMA, graphics
constexpr uint32_t kMostCards = 64;
constexpr int64_t kRocmMib = int64_t{1} << 20;

struct RsmiErrorCount {  // rsmi_error_count_t
  uint64_t correctable;
  uint64_t uncorrectable;
};

template <class Signature>
using RsmiFunction = gateway::net::LibraryFunction<Signature>;

struct RsmiApi {
  explicit RsmiApi(const gateway::net::DynamicLibrary& library)
      : init(library, "rsmi_init"),
        shutdown(library, "rsmi_shut_down"),
        count(library, "rsmi_num_monitor_devices"),
        unique_id(library, "rsmi_dev_unique_id_get"),
        pci_id(library, "rsmi_dev_pci_id_get"),
        busy(library, "rsmi_dev_busy_percent_get"),
        memory_used(library, "rsmi_dev_memory_usage_get"),
        memory_total(library, "rsmi_dev_memory_total_get"),
        power(library, "rsmi_dev_power_ave_get"),
        power_cap(library, "rsmi_dev_power_cap_get"),
        temperature(library, "rsmi_dev_temp_metric_get"),
        energy(library, "rsmi_dev_energy_count_get"),
        ecc(library, "rsmi_dev_ecc_count_get") {}

  bool complete() const { return init && shutdown && count; }

  RsmiFunction<RsmiStatus(uint64_t)> init;
  RsmiFunction<RsmiStatus()> shutdown;
  RsmiFunction<RsmiStatus(uint32_t*)> count;
  RsmiFunction<RsmiStatus(uint32_t, uint64_t*)> unique_id;
  RsmiFunction<RsmiStatus(uint32_t, uint64_t*)> pci_id;
  RsmiFunction<RsmiStatus(uint32_t, uint32_t*)> busy;                            // percent
  RsmiFunction<RsmiStatus(uint32_t, uint32_t, uint64_t*)> memory_used;           // bytes
  RsmiFunction<RsmiStatus(uint32_t, uint32_t, uint64_t*)> memory_total;          // bytes
  RsmiFunction<RsmiStatus(uint32_t, uint32_t, uint64_t*)> power;                 // microwatts
  RsmiFunction<RsmiStatus(uint32_t, uint32_t, uint64_t*)> power_cap;             // microwatts
  RsmiFunction<RsmiStatus(uint32_t, uint32_t, uint32_t, int64_t*)> temperature;  // thousandths of a degree
  RsmiFunction<RsmiStatus(uint32_t, uint64_t*, float*, uint64_t*)> energy;       // counts, microjoules of one
  RsmiFunction<RsmiStatus(uint32_t, uint64_t, RsmiErrorCount*)> ecc;
};

void ReadCard(const RsmiApi& api, uint32_t card, Reading& out) {
  const auto ask = [&](std::string_view what, const auto& call, auto... args) {
    if (!call) return false;
    const RsmiStatus answer = call(card, args...);
    if (answer == 0) return true;
    if (answer != kRsmiNotSupported && answer != kRsmiNoPermission && answer != kRsmiNotYetKnown)
      out.errors.push_back(fmt::format("{}: error {}", what, answer));
    return false;
  };
  uint64_t wide = 0;
  uint32_t percent = 0;
  if (ask("utilization", api.busy, &percent) && percent <= 100) out.utilization = percent / 100.0;
  if (ask("memory", api.memory_used, kVram, &wide))
    out.memory_used_mib = static_cast<int64_t>(wide) / kRocmMib;
  if (ask("memory", api.memory_total, kVram, &wide))
    out.memory_total_mib = static_cast<int64_t>(wide) / kRocmMib;
  if (ask("power", api.power, 0U, &wide)) out.watts = static_cast<double>(wide) * 1e-6;
  if (ask("power limit", api.power_cap, 0U, &wide)) out.watts_limit = static_cast<double>(wide) * 1e-6;
  int64_t thousandths = 0;
  if ((api.temperature && api.temperature(card, kJunction, kCurrentTemperature, &thousandths) == 0) ||
      ask("temperature", api.temperature, kEdge, kCurrentTemperature, &thousandths))
    out.celsius = static_cast<double>(thousandths) * 1e-3;
  float each = 0;
  uint64_t at = 0;
  if (ask("energy", api.energy, &wide, &each, &at) && each > 0)
    out.energy_mj = static_cast<uint64_t>(static_cast<double>(wide) * static_cast<double>(each) * 1e-3);
  for (const uint64_t block : kEccBlocks) {
    RsmiErrorCount errors{};
    if (!api.ecc || api.ecc(card, block, &errors) != 0) continue;
    out.ecc_corrected = out.ecc_corrected.value_or(0) + errors.correctable;
    out.ecc_uncorrected = out.ecc_uncorrected.value_or(0) + errors.uncorrectable;
  }
}

}  // namespace

struct RocmReader::Driver {
  explicit Driver(gateway::net::DynamicLibrary opened) : library(std::move(opened)), api(library) {}
  ~Driver() {
    if (begun) api.shutdown();
  }
  const gateway::net::DynamicLibrary library;
  const RsmiApi api;
  bool begun = false;
};

RocmReader::RocmReader(std::string library, std::string pci_devices)
    : library_(std::move(library)), pci_devices_(std::move(pci_devices)) {}

RocmReader::~RocmReader() = default;

bool RocmReader::opened() const {
  return driver_ != nullptr;
}

Readings RocmReader::Read() {
  Readings out;
  for (const char* name :
       {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", "librocm_smi64.so"}) {
    if (driver_) break;
    gateway::net::DynamicLibrary library =
        gateway::net::OpenLibrary(library_.empty() ? name : library_.c_str());
    if (library) driver_ = std::make_unique<Driver>(std::move(library));
    if (!library_.empty()) break;
  }
  if (!driver_) return out;
  const RsmiApi& api = driver_->api;
  if (!api.complete()) {
    out.problems.emplace_back("librocm_smi64 lacks functions of ROCm SMI");
    return out;
  }
  if (!driver_->begun) {
    if (const RsmiStatus failed = api.init(uint64_t{0}); failed != 0) {
      out.problems.push_back(fmt::format("the driver does not answer: error {}", failed));
      return out;
    }
    driver_->begun = true;
  }
  uint32_t count = 0;
  if (const RsmiStatus failed = api.count(&count); failed != 0) {
    out.problems.push_back(fmt::format("the devices cannot be counted: error {}", failed));
    return out;
  }
  for (uint32_t card = 0; card < std::min(count, kMostCards); ++card) {
    Reading& reading = out.devices.emplace_back();
    uint64_t id = 0;
    reading.index = card;
    reading.key = api.unique_id && api.unique_id(card, &id) == 0 && id != 0 ? fmt::format("0x{:x}", id)
                                                                            : std::to_string(card);
    ReadCard(api, card, reading);
    if (api.pci_id && api.pci_id(card, &id) == 0) {
      const AmdgpuClocks clocks = ReadAmdgpuClocks(pci_devices_, id);
      reading.clock_mhz = clocks.core_mhz;
      reading.memory_clock_mhz = clocks.memory_mhz;
    }
  }
  return out;
}

}  // namespace plugins::devices
