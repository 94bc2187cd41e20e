#include "plugins/devices/nvml_readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plugins/devices/nvml_api.h"

namespace plugins::devices {
namespace {

using namespace nvml;

// ---- The part of NVML that is read, after NVIDIA's API reference.

struct UtilizationRates {  // nvmlUtilization_t, percent
  unsigned gpu;
  unsigned memory;
};
struct RunningProcess {  // nvmlProcessInfo_t of version 2 and 3
  unsigned pid;
  unsigned long long used_memory;  // bytes; all bits set: not reported
  unsigned gpu_instance;
  unsigned compute_instance;
};

constexpr int kGpuTemperature = 0;                  // NVML_TEMPERATURE_GPU
constexpr int kCoreClock = 1;                       // NVML_CLOCK_SM
constexpr int kMemoryClock = 2;                     // NVML_CLOCK_MEM
constexpr int kCorrected = 0;                       // NVML_MEMORY_ERROR_TYPE_CORRECTED
constexpr int kUncorrected = 1;                     // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kSinceDriverLoad = 0;                 // NVML_VOLATILE_ECC
constexpr unsigned kMaxLinks = 18;                  // NVML_NVLINK_MAX_LINKS
constexpr std::array kLinkCounters = {0, 1, 2, 3};  // replay, recovery, CRC of flits, CRC of data
constexpr unsigned kMaxProcesses = 256;
constexpr unsigned kMaxGpus = 64;

// nvmlClocksEventReasons
constexpr unsigned long long kSwPowerCap = 0x4;
constexpr unsigned long long kHwSlowdown = 0x8;
constexpr unsigned long long kSwThermal = 0x20;
constexpr unsigned long long kHwThermal = 0x40;
constexpr unsigned long long kHwPowerBrake = 0x80;

constexpr int64_t kMib = int64_t{1} << 20;

struct ReadingApi : BasicApi {
  explicit ReadingApi(const Library& library)
      : BasicApi(library),
        utilization(library, "nvmlDeviceGetUtilizationRates"),
        power(library, "nvmlDeviceGetPowerUsage"),
        power_limit(library, "nvmlDeviceGetEnforcedPowerLimit"),
        energy(library, "nvmlDeviceGetTotalEnergyConsumption"),
        temperature(library, "nvmlDeviceGetTemperature"),
        clock(library, "nvmlDeviceGetClockInfo"),
        reasons(library, "nvmlDeviceGetCurrentClocksEventReasons",
                "nvmlDeviceGetCurrentClocksThrottleReasons"),
        ecc_errors(library, "nvmlDeviceGetTotalEccErrors"),
        link_state(library, "nvmlDeviceGetNvLinkState"),
        link_errors(library, "nvmlDeviceGetNvLinkErrorCounter"),
        processes(library, "nvmlDeviceGetComputeRunningProcesses_v3",
                  "nvmlDeviceGetComputeRunningProcesses_v2") {}

  Function<Return(Handle, UtilizationRates*)> utilization;
  Function<Return(Handle, unsigned*)> power;        // milliwatts
  Function<Return(Handle, unsigned*)> power_limit;  // milliwatts
  Function<Return(Handle, unsigned long long*)> energy;
  Function<Return(Handle, int, unsigned*)> temperature;
  Function<Return(Handle, int, unsigned*)> clock;
  Function<Return(Handle, unsigned long long*)> reasons;
  Function<Return(Handle, int, int, unsigned long long*)> ecc_errors;
  Function<Return(Handle, unsigned, int*)> link_state;
  Function<Return(Handle, unsigned, int, unsigned long long*)> link_errors;
  Function<Return(Handle, unsigned*, RunningProcess*)> processes;
};

// Reads the figures of one device and notes what went wrong. A figure that the device does not have is no error.
class OneDevice {
 public:
  OneDevice(const ReadingApi& api, Handle handle, Reading& out) : api_(api), handle_(handle), out_(out) {}

  // Whether `call` has brought a figure.
  template <class Call, class... Args>
  bool Ask(std::string_view what, const Call& call, Args... args) {
    if (out_.lost || !call) return false;
    const Return answer = call(handle_, args...);
    if (answer == kSuccess) return true;
    if (answer == kLost || answer == kResetRequired) {
      out_.lost = true;
    } else if (answer != kNotSupported && answer != kNoPermission) {
      out_.errors.push_back(fmt::format("{}: {}", what, api_.Error(answer)));
    }
    return false;
  }

  void ReadAll() {
    Memory memory{};
    if (Ask("memory", api_.memory, &memory)) {
      out_.memory_used_mib = static_cast<int64_t>(memory.used) / kMib;
      out_.memory_total_mib = static_cast<int64_t>(memory.total) / kMib;
    }
    UtilizationRates rates{};
    if (Ask("utilization", api_.utilization, &rates) && rates.gpu <= 100)
      out_.utilization = rates.gpu / 100.0;
    unsigned number = 0;
    if (Ask("power", api_.power, &number)) out_.watts = number / 1000.0;
    if (Ask("power limit", api_.power_limit, &number)) out_.watts_limit = number / 1000.0;
    if (Ask("temperature", api_.temperature, kGpuTemperature, &number)) out_.celsius = number;
    if (Ask("clock", api_.clock, kCoreClock, &number)) out_.clock_mhz = number;
    if (Ask("memory clock", api_.clock, kMemoryClock, &number)) out_.memory_clock_mhz = number;
    unsigned long long wide = 0;
    if (Ask("energy", api_.energy, &wide)) out_.energy_mj = wide;
    if (Ask("throttling", api_.reasons, &wide)) {
      out_.throttling = {.power_cap = (wide & kSwPowerCap) != 0,
                         .thermal = (wide & (kSwThermal | kHwThermal)) != 0,
                         .power_brake = (wide & kHwPowerBrake) != 0,
                         .slowdown = (wide & kHwSlowdown) != 0};
    }
    if (Ask("corrected ECC errors", api_.ecc_errors, kCorrected, kSinceDriverLoad, &wide))
      out_.ecc_corrected = wide;
    if (Ask("uncorrected ECC errors", api_.ecc_errors, kUncorrected, kSinceDriverLoad, &wide))
      out_.ecc_uncorrected = wide;
    ReadLinks();
    ReadProcesses();
  }

 private:
  void ReadLinks() {
    if (!api_.link_state || !api_.link_errors) return;
    for (unsigned link = 0; link < kMaxLinks && !out_.lost; ++link) {
      int active = 0;
      if (api_.link_state(handle_, link, &active) != kSuccess || active == 0) continue;
      for (const int counter : kLinkCounters) {
        unsigned long long errors = 0;
        if (api_.link_errors(handle_, link, counter, &errors) == kSuccess)
          out_.link_errors = out_.link_errors.value_or(0) + errors;
      }
    }
  }

  void ReadProcesses() {
    std::array<RunningProcess, kMaxProcesses> running{};
    unsigned count = kMaxProcesses;
    if (out_.lost || !api_.processes) return;
    const Return answer = api_.processes(handle_, &count, running.data());
    if (answer != kSuccess) return;  // with more processes than that, none is reported
    for (unsigned i = 0; i < std::min(count, kMaxProcesses); ++i) {
      DeviceProcess& process = out_.processes.emplace_back();
      process.pid = running[i].pid;
      if (running[i].used_memory != ~0ULL)
        process.memory_mib = static_cast<int64_t>(running[i].used_memory) / kMib;
    }
  }

  const ReadingApi& api_;
  const Handle handle_;
  Reading& out_;
};

}  // namespace

struct NvmlReader::Driver {
  explicit Driver(Library opened) : library(std::move(opened)), api(library) {}
  ~Driver() {
    if (begun) api.shutdown();
  }
  const Library library;
  const ReadingApi api;
  bool begun = false;
};

NvmlReader::NvmlReader(std::string library) : library_(std::move(library)) {}

NvmlReader::~NvmlReader() = default;

bool NvmlReader::opened() const {
  return driver_ != nullptr;
}

Readings NvmlReader::Read() {
  Readings out;
  if (!driver_) {
    Library library = gateway::net::OpenLibrary(library_.c_str());
    if (!library) return out;
    driver_ = std::make_unique<Driver>(std::move(library));
  }
  const ReadingApi& api = driver_->api;
  if (!api.complete()) {
    out.problems.push_back(fmt::format("{} lacks functions of NVML", library_));
    return out;
  }
  if (!driver_->begun) {
    if (const Return failed = api.init(); failed != kSuccess) {
      out.problems.push_back(fmt::format("the driver does not answer: {}", api.Error(failed)));
      return out;
    }
    driver_->begun = true;
  }
  unsigned count = 0;
  if (const Return failed = api.count(&count); failed != kSuccess) {
    out.problems.push_back(fmt::format("the devices cannot be counted: {}", api.Error(failed)));
    if (failed == kUninitialized || failed == kDriverNotLoaded) driver_->begun = false;
    return out;
  }
  count = std::min(count, kMaxGpus);
  for (unsigned i = 0; i < count; ++i) {
    Handle handle = nullptr;
    std::array<char, kTextSize> text{};
    const Return failed = api.by_index(i, &handle);
    if (failed != kSuccess || api.uuid(handle, text.data(), kTextSize) != kSuccess) {
      out.problems.push_back(
          fmt::format("GPU {} cannot be read: {}", i, api.Error(failed != kSuccess ? failed : kLost)));
      continue;
    }
    text.back() = '\0';
    Reading& reading = out.devices.emplace_back();
    reading.key = text.data();
    reading.index = i;
    OneDevice(api, handle, reading).ReadAll();
  }
  return out;
}

}  // namespace plugins::devices
