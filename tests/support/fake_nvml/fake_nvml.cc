// A library with NVML's functions: four GPUs, of which 0 and 1, and 2 and 3, are joined by NVLink; GPU 3 has
// partitions. With FAKE_NVML_FAILS in the environment it fails like a driver that is not loaded. FAKE_NVML_FAULTS names
// a file with its state, which may be a recording of a real driver and may change at any time. Each line has a word, a
// GPU and a number:
//   remap-failed 0, remap-pending 1, pages 2, lost 1: what is wrong
//   xid 0 79: an Xid; each is told once
//   power 0 350000 (mW), limit 0 700000 (mW), temp 0 71, util 0 93, used 0 40000 (MiB), total 0 81559 (MiB),
//   reasons 0 64 (bits of the throttle reasons), ecc 0 2 and ecc-corrected 0 9, link 0 4, clock 0 1980,
//   memory-clock 0 2619, process 0 4711 [bytes] (several lines: several): figures
//   count 0 1: how many GPUs there are; name 0 NVIDIA H200, uuid 0 GPU-…, mig 0 0: what GPU 0 is
//   energy 0 123456 (mJ): the counter; without this line it counts the power over time
//   reset 0 1: the counter that counts begins again, once for each number
//   error-power 0 999: the call for the power fails with that code; likewise error-temp, error-energy, error-links and
//   error-pages-pending
//   no-cap 0: its power limit may not be set; one that is set is kept in the file FAKE_NVML_FAULTS.limits
//   hang 0: the call for the power does not return while the line is there
//   gone 3: that GPU cannot be opened
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

constexpr unsigned kGpus = 4;
constexpr int kNotFound = 6;
constexpr int kInvalid = 2;

struct Gpu {
  unsigned index;
  int mig;  // -1: a whole GPU
};
Gpu gpus[kGpus] = {{0, -1}, {1, -1}, {2, -1}, {3, -1}};
// Numbers 0, 2 and 3 are there: 3g.40gb at 4, and 1g.10gb at 0 and 1.
struct Instance {
  Gpu gpu;
  const char* profile;
  unsigned start;
  unsigned slots;
};
Instance instances[] = {
    {{3, 0}, "3g.40gb", 4, 4}, {{3, 1}, nullptr, 0, 0}, {{3, 2}, "1g.10gb", 0, 1}, {{3, 3}, "1g.10gb", 1, 1}};

// Whether the file has such a line.
bool Has(const char* what, unsigned gpu) {
  const char* const path = std::getenv("FAKE_NVML_FAULTS");
  std::FILE* const file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return false;
  bool has = false;
  char word[32];
  unsigned index = 0;
  for (char line[80]; std::fgets(line, sizeof line, file) != nullptr;)
    has = has ||
          (std::sscanf(line, "%31s %u", word, &index) == 2 && std::strcmp(word, what) == 0 && index == gpu);
  std::fclose(file);
  return has;
}

// The number of such a line, or `otherwise`.
unsigned long long Number(const char* what, unsigned gpu, unsigned long long otherwise) {
  const char* const path = std::getenv("FAKE_NVML_FAULTS");
  std::FILE* const file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return otherwise;
  char word[32];
  unsigned index = 0;
  unsigned long long number = 0;
  for (char line[80]; std::fgets(line, sizeof line, file) != nullptr;) {
    if (std::sscanf(line, "%31s %u %llu", word, &index, &number) == 3 && std::strcmp(word, what) == 0 &&
        index == gpu)
      otherwise = number;
  }
  std::fclose(file);
  return otherwise;
}

// Copies the rest of the line "WORD GPU TEXT".
bool Text(const char* what, unsigned gpu, char* text, unsigned size) {
  const char* const path = std::getenv("FAKE_NVML_FAULTS");
  std::FILE* const file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return false;
  bool found = false;
  char word[32];
  unsigned index = 0;
  int at = 0;
  for (char line[160]; !found && std::fgets(line, sizeof line, file) != nullptr;) {
    found = std::sscanf(line, "%31s %u %n", word, &index, &at) == 2 && std::strcmp(word, what) == 0 &&
            index == gpu;
    if (found) {
      line[std::strcspn(line, "\n")] = '\0';
      std::snprintf(text, size, "%s", line + at);
    }
  }
  std::fclose(file);
  return found;
}

// The limits that were set, which a driver keeps when the process ends: a line for each GPU, the last one counts.
std::FILE* OpenLimits(const char* how) {
  const char* const path = std::getenv("FAKE_NVML_FAULTS");
  if (path == nullptr) return nullptr;
  char name[4096];
  std::snprintf(name, sizeof name, "%s.limits", path);
  return std::fopen(name, how);
}
[[maybe_unused]] bool KeepLimit(unsigned gpu, unsigned milliwatts) {
  std::FILE* const file = OpenLimits("a");
  if (file == nullptr) return false;
  std::fprintf(file, "%u %u\n", gpu, milliwatts);
  return std::fclose(file) == 0;
}
unsigned SetLimit(unsigned gpu, unsigned otherwise) {
  std::FILE* const file = OpenLimits("r");
  if (file == nullptr) return otherwise;
  unsigned index = 0;
  unsigned milliwatts = 0;
  while (std::fscanf(file, "%u %u", &index, &milliwatts) == 2) {
    if (index == gpu) otherwise = milliwatts;
  }
  std::fclose(file);
  return otherwise;
}

unsigned xids_told = 0;

const Gpu& Of(const void* handle) {
  return *static_cast<const Gpu*>(handle);
}

}  // namespace

extern "C" {

struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakeGpuInstanceInfo {
  void* device;
  unsigned id, profile_id, start, size;
};

int nvmlInit_v2() {
  return std::getenv("FAKE_NVML_FAILS") ? 9 : 0;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int) {
  return "Driver Not Loaded";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Number("count", 0, kGpus));
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= kGpus) return kInvalid;
  if (Has("gone", index)) return 15;
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  const Gpu& gpu = Of(device);
  if (gpu.mig < 0) {
    if (!Text("name", gpu.index, name, size)) std::snprintf(name, size, "NVIDIA H100 80GB HBM3");
  } else {
    std::snprintf(name, size, "NVIDIA H100 80GB HBM3 MIG %s", instances[gpu.mig].profile);
  }
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  const Gpu& gpu = Of(device);
  if (gpu.mig < 0 && Text("uuid", gpu.index, uuid, size)) return 0;
  std::snprintf(uuid, size, gpu.mig < 0 ? "GPU-%u" : "MIG-%u-%d", gpu.index, gpu.mig);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  const Gpu& gpu = Of(device);
  if (Has("lost", gpu.index)) return 15;
  const unsigned long long slots = gpu.mig < 0 ? 8 : instances[gpu.mig].slots;
  const unsigned long long total = (Number("total", gpu.index, 81'559) << 20) * slots / 8;
  const unsigned long long used = (Number("used", gpu.index, 0) << 20) * slots / 8;
  *memory = {total, total - used, used};
  return 0;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status) {
  *status = capability == 2 && Of(a).index / 2 == Of(b).index / 2 ? 0 : 1;
  return 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  const unsigned gpu = Of(device).index;
  *current = *pending = static_cast<unsigned>(Number("mig", gpu, gpu == 3 ? 1 : 0));
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** mig) {
  if (index >= sizeof instances / sizeof *instances || !instances[index].profile) return kNotFound;
  *mig = &instances[index].gpu;
  return 0;
}
int nvmlDeviceGetGpuInstanceId(void* mig, unsigned* id) {
  *id = static_cast<unsigned>(Of(mig).mig);
  return 0;
}
int nvmlDeviceGetGpuInstanceById(void*, unsigned id, void** instance) {
  *instance = &instances[id];
  return 0;
}
int nvmlGpuInstanceGetInfo(void* instance, FakeGpuInstanceInfo* info) {
  const Instance& of = *static_cast<const Instance*>(instance);
  info->start = of.start;
  info->size = of.slots;
  return 0;
}

int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  const unsigned gpu = Of(device).index;
  if (gpu == 2) return 3;  // one that retires pages instead
  *corrected = *uncorrected = 1;
  *pending = Has("remap-pending", gpu) ? 1 : 0;
  *failed = Has("remap-failed", gpu) ? 1 : 0;
  return 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void* device, int* pending) {
  const unsigned gpu = Of(device).index;
  *pending = Has("pages", gpu) ? 1 : 0;
  return static_cast<int>(Number("error-pages-pending", gpu, 0));
}

struct FakeEvent {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetCreate(void** set) {
  *set = &xids_told;
  return 0;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) {
  return types == 8 ? 0 : kInvalid;
}
int nvmlEventSetWait_v2(void*, FakeEvent* event, unsigned) {
  const char* const path = std::getenv("FAKE_NVML_FAULTS");
  std::FILE* const file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return 10;
  unsigned nth = 0;
  unsigned gpu = 0;
  unsigned xid = 0;
  int result = 10;  // nothing came in time
  for (char line[80]; result != 0 && std::fgets(line, sizeof line, file) != nullptr;) {
    if (std::sscanf(line, "xid %u %u", &gpu, &xid) != 2 || nth++ < xids_told) continue;
    ++xids_told;
    *event = {&gpus[gpu], 8, xid, 0, 0};
    result = 0;
  }
  std::fclose(file);
  return result;
}
int nvmlEventSetFree(void*) {
  xids_told = 0;
  return 0;
}

#ifndef FAKE_NVML_OLD
struct FakeUtilization {
  unsigned gpu, memory;
};
struct FakeProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetUtilizationRates(void* device, FakeUtilization* rates) {
  *rates = {static_cast<unsigned>(Number("util", Of(device).index, 0)), 0};
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (Gpu& gpu : gpus) {
    char name[96];
    if (nvmlDeviceGetUUID(&gpu, name, sizeof name) == 0 && std::strcmp(name, uuid) == 0) {
      *device = &gpu;
      return 0;
    }
  }
  return kNotFound;
}
int nvmlDeviceGetPowerManagementLimitConstraints(void*, unsigned* least, unsigned* most) {
  *least = 200'000;
  *most = 700'000;
  return 0;
}
int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* milliwatts) {
  const unsigned gpu = Of(device).index;
  *milliwatts = SetLimit(gpu, static_cast<unsigned>(Number("limit", gpu, 700'000)));
  return 0;
}
int nvmlDeviceSetPowerManagementLimit(void* device, unsigned milliwatts) {
  const unsigned gpu = Of(device).index;
  if (Has("no-cap", gpu)) return 4;
  if (milliwatts < 200'000 || milliwatts > 700'000) return kInvalid;
  return KeepLimit(gpu, milliwatts) ? 0 : 999;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  const unsigned gpu = Of(device).index;
  *celsius = static_cast<unsigned>(Number("temp", gpu, 40));
  return static_cast<int>(Number("error-temp", gpu, 0));
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  const unsigned gpu = Of(device).index;
  *mhz = static_cast<unsigned>(type == 1 ? Number("clock", gpu, 1980) : Number("memory-clock", gpu, 2619));
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = Number("reasons", Of(device).index, 1);
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int, unsigned long long* errors) {
  *errors = Number(type == 0 ? "ecc-corrected" : "ecc", Of(device).index, 0);
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  *active = link < 2 ? 1 : 0;
  return static_cast<int>(Number("error-links", Of(device).index, 0));
}
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, int counter, unsigned long long* errors) {
  *errors = link == 0 && counter == 2 ? Number("link", Of(device).index, 0) : 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, FakeProcess* processes) {
  const unsigned room = *count;
  *count = 0;
  const char* const path = std::getenv("FAKE_NVML_FAULTS");
  std::FILE* const file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return 0;
  unsigned index = 0;
  unsigned pid = 0;
  unsigned long long used = 0;
  for (char line[80]; std::fgets(line, sizeof line, file) != nullptr;) {
    const int found = std::sscanf(line, "process %u %u %llu", &index, &pid, &used);
    if (found < 2 || index != Of(device).index) continue;
    if (*count < room) processes[*count] = {pid, found == 3 ? used : 1024ULL << 20, 0, 0};
    ++*count;
  }
  std::fclose(file);
  return *count > room ? 7 : 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const unsigned gpu = Of(device).index;
  static double counted[kGpus];
  static double seen[kGpus];
  static unsigned long long resets[kGpus];
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  if (seen[gpu] > 0)
    counted[gpu] += static_cast<double>(Number("power", gpu, 100'000)) * (seconds - seen[gpu]);
  seen[gpu] = seconds;
  const unsigned long long reset = Number("reset", gpu, 0);
  if (reset != resets[gpu]) counted[gpu] = 0;
  resets[gpu] = reset;
  *millijoules = Number("energy", gpu, static_cast<unsigned long long>(counted[gpu]));
  return static_cast<int>(Number("error-energy", gpu, 0));
}
#endif

// Functions that an older driver has, too.
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const unsigned gpu = Of(device).index;
  while (Has("hang", gpu)) usleep(20'000);
  const unsigned drawn = static_cast<unsigned>(Number("power", gpu, 100'000));
  const unsigned limit = SetLimit(gpu, drawn);
  *milliwatts = drawn < limit ? drawn : limit;
  return static_cast<int>(Number("error-power", gpu, 0));
}

}  // extern "C"
