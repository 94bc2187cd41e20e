// Writes down what NVML says of the GPUs of this machine, in the words of FAKE_NVML_FAULTS that the tests' library
// understands (tests/support/fake_nvml). It asks by its own calls, not by those of plugins/devices.
//
//   g++ -std=c++20 -O1 -o record_nvml tests/gpu/record_nvml.cc -ldl && ./record_nvml 60 >recording.txt
//
// One sample each second, SECONDS of them: a line "sample N MILLISECONDS", then a line "WORD GPU VALUE" for each figure.
// A call that fails is the line "error-WORD GPU CODE".
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

void* library = nullptr;

// The code of the driver, or 13 (NVML_ERROR_FUNCTION_NOT_FOUND).
template <class... Args>
int Call(const char* name, Args... args) {
  auto* const function = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  return function != nullptr ? function(args...) : 13;
}

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

void Error(const char* word, unsigned gpu, int code) {
  if (code != 0) std::printf("error-%s %u %d\n", word, gpu, code);
}

void Figure(const char* word, unsigned gpu, int code, unsigned long long value) {
  Error(word, gpu, code);
  if (code == 0) std::printf("%s %u %llu\n", word, gpu, value);
}

void Text(const char* word, unsigned gpu, void* device, const char* function) {
  char text[96] = {};
  const int code = Call(function, device, static_cast<char*>(text), 96U);
  Error(word, gpu, code);
  if (code == 0) std::printf("%s %u %s\n", word, gpu, text);
}

template <class Value, class... Args>
void Number(const char* word, unsigned gpu, const char* function, Args... args) {
  Value value = 0;
  const int code = Call(function, args..., &value);
  Figure(word, gpu, code, value);
}

void Links(unsigned gpu, void* device) {
  unsigned long long active = 0;
  unsigned long long errors = 0;
  int code = 0;
  for (unsigned link = 0; link < 18; ++link) {
    int on = 0;
    const int state = Call("nvmlDeviceGetNvLinkState", device, link, &on);
    if (link == 0) code = state;
    if (state != 0 || on == 0) continue;
    ++active;
    for (int counter = 0; counter < 4; ++counter) {
      unsigned long long count = 0;
      const int told = Call("nvmlDeviceGetNvLinkErrorCounter", device, link, counter, &count);
      if (told == 0) errors += count;
      if (link == 0 && counter == 0) Error("link", gpu, told);
    }
  }
  Figure("links", gpu, code, active);
  if (active != 0) std::printf("link %u %llu\n", gpu, errors);
}

void Processes(unsigned gpu, void* device) {
  Process running[64] = {};
  unsigned count = 64;
  const int code =
      Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, static_cast<Process*>(running));
  Error("process", gpu, code);
  for (unsigned i = 0; code == 0 && i < count; ++i)
    std::printf("process %u %u %llu\n", gpu, running[i].pid, running[i].used);
}

void Sample(unsigned gpu, void* device) {
  Text("name", gpu, device, "nvmlDeviceGetName");
  Text("uuid", gpu, device, "nvmlDeviceGetUUID");
  Memory memory{};
  const int told = Call("nvmlDeviceGetMemoryInfo", device, &memory);
  Figure("total", gpu, told, memory.total >> 20);
  Figure("used", gpu, told, memory.used >> 20);
  Utilization rates{};
  const int rated = Call("nvmlDeviceGetUtilizationRates", device, &rates);
  Figure("util", gpu, rated, rates.gpu);
  Number<unsigned>("power", gpu, "nvmlDeviceGetPowerUsage", device);
  Number<unsigned>("limit", gpu, "nvmlDeviceGetEnforcedPowerLimit", device);
  Number<unsigned>("usual-limit", gpu, "nvmlDeviceGetPowerManagementLimit", device);
  unsigned least = 0;
  unsigned most = 0;
  const int bounds = Call("nvmlDeviceGetPowerManagementLimitConstraints", device, &least, &most);
  Figure("least-limit", gpu, bounds, least);
  Figure("most-limit", gpu, bounds, most);
  Number<unsigned long long>("energy", gpu, "nvmlDeviceGetTotalEnergyConsumption", device);
  Number<unsigned>("temp", gpu, "nvmlDeviceGetTemperature", device, 0);
  Number<unsigned>("clock", gpu, "nvmlDeviceGetClockInfo", device, 1);
  Number<unsigned>("memory-clock", gpu, "nvmlDeviceGetClockInfo", device, 2);
  Number<unsigned long long>("reasons", gpu, "nvmlDeviceGetCurrentClocksEventReasons", device);
  Number<unsigned long long>("ecc-corrected", gpu, "nvmlDeviceGetTotalEccErrors", device, 0, 0);
  Number<unsigned long long>("ecc", gpu, "nvmlDeviceGetTotalEccErrors", device, 1, 0);
  unsigned current = 0;
  unsigned pending = 0;
  const int mig = Call("nvmlDeviceGetMigMode", device, &current, &pending);
  Figure("mig", gpu, mig, current);
  unsigned rows[4] = {};
  const int remapped = Call("nvmlDeviceGetRemappedRows", device, &rows[0], &rows[1], &rows[2], &rows[3]);
  Figure("remap-corrected", gpu, remapped, rows[0]);
  if (rows[2] != 0) std::printf("remap-pending %u %u\n", gpu, rows[2]);
  if (rows[3] != 0) std::printf("remap-failed %u %u\n", gpu, rows[3]);
  int pages = 0;
  Figure("pages-pending", gpu, Call("nvmlDeviceGetRetiredPagesPendingStatus", device, &pages),
         static_cast<unsigned>(pages));
  Links(gpu, device);
  Processes(gpu, device);
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 60;
  library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "record_nvml: %s\n", dlerror());
    return 1;
  }
  if (const int code = Call("nvmlInit_v2"); code != 0) {
    std::fprintf(stderr, "record_nvml: the driver does not answer: error %d\n", code);
    return 1;
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (int n = 0; n < seconds; ++n) {
    std::this_thread::sleep_until(start + std::chrono::seconds(n));
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
    std::printf("sample %d %lld\n", n, static_cast<long long>(passed));
    unsigned count = 0;
    if (const int code = Call("nvmlDeviceGetCount_v2", &count); code != 0) {
      std::printf("error-count 0 %d\n", code);
      continue;
    }
    std::printf("count 0 %u\n", count);
    for (unsigned gpu = 0; gpu < count; ++gpu) {
      void* device = nullptr;
      const int code = Call("nvmlDeviceGetHandleByIndex_v2", gpu, &device);
      Error("open", gpu, code);
      if (code == 0) Sample(gpu, device);
    }
    std::fflush(stdout);
  }
  Call("nvmlShutdown");
  return 0;
}
