#include "plugins/devices/nvml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "plugins/devices/nvml_api.h"

namespace plugins::devices {
namespace {

// ---- The part of NVML that is used.

using namespace nvml;

struct GpuInstance_st;
using GpuInstance = GpuInstance_st*;

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];  // "00000000:17:00.0"
};
struct GpuInstanceInfo {  // nvmlGpuInstanceInfo_t
  Handle device;
  unsigned id;
  unsigned profile_id;
  struct {
    unsigned start;
    unsigned size;
  } placement;
};

struct EventSet_st;
using EventSet = EventSet_st*;
struct EventData {  // nvmlEventData_t
  Handle device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

constexpr unsigned long long kXidEvents = 8;  // nvmlEventTypeXidCriticalError
constexpr int kP2pByNvlink = 2;               // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int64_t kBytesPerMib = int64_t{1} << 20;

struct Api : BasicApi {
  explicit Api(const Library& library)
      : BasicApi(library),
        name(library, "nvmlDeviceGetName"),
        pci(library, "nvmlDeviceGetPciInfo_v3"),
        p2p(library, "nvmlDeviceGetP2PStatus"),
        mig_mode(library, "nvmlDeviceGetMigMode"),
        max_mig(library, "nvmlDeviceGetMaxMigDeviceCount"),
        mig_by_index(library, "nvmlDeviceGetMigDeviceHandleByIndex"),
        gpu_instance_id(library, "nvmlDeviceGetGpuInstanceId"),
        gpu_instance(library, "nvmlDeviceGetGpuInstanceById"),
        gpu_instance_info(library, "nvmlGpuInstanceGetInfo"),
        remapped_rows(library, "nvmlDeviceGetRemappedRows"),
        pages_pending(library, "nvmlDeviceGetRetiredPagesPendingStatus"),
        make_events(library, "nvmlEventSetCreate"),
        register_events(library, "nvmlDeviceRegisterEvents"),
        wait_event(library, "nvmlEventSetWait_v2"),
        free_events(library, "nvmlEventSetFree") {}

  // Without these nothing can be reported.
  bool complete() const { return BasicApi::complete() && name && memory; }
  bool has_mig() const { return mig_mode && max_mig && mig_by_index; }
  bool has_events() const { return make_events && register_events && wait_event && free_events; }

  Function<Return(Handle, char*, unsigned)> name;
  Function<Return(Handle, PciInfo*)> pci;
  Function<Return(Handle, Handle, int, int*)> p2p;
  Function<Return(Handle, unsigned*, unsigned*)> mig_mode;
  Function<Return(Handle, unsigned*)> max_mig;
  Function<Return(Handle, unsigned, Handle*)> mig_by_index;
  Function<Return(Handle, unsigned*)> gpu_instance_id;
  Function<Return(Handle, unsigned, GpuInstance*)> gpu_instance;
  Function<Return(GpuInstance, GpuInstanceInfo*)> gpu_instance_info;
  Function<Return(Handle, unsigned*, unsigned*, unsigned*, unsigned*)> remapped_rows;
  Function<Return(Handle, int*)> pages_pending;
  Function<Return(EventSet*)> make_events;
  Function<Return(Handle, unsigned long long, EventSet)> register_events;
  Function<Return(EventSet, EventData*, unsigned)> wait_event;
  Function<Return(EventSet)> free_events;
};

// The trouble of a device. Memory is repaired at a reset; while a repair waits for one, programs may fail.
void Examine(const Api& api, Handle handle, Device& device, Found& found) {
  Memory memory{};
  const Return answer = api.memory(handle, &memory);
  if (answer == kLost || answer == kResetRequired) {
    found.lost.push_back(device.uuid);
    device.trouble = answer == kLost ? "it is lost: its driver cannot reach it" : "it has to be reset";
    return;
  }
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (api.remapped_rows && api.remapped_rows(handle, &corrected, &uncorrected, &pending, &failed) == 0) {
    if (failed != 0) {
      device.trouble = "rows of its memory could not be remapped: it needs service";
    } else if (pending != 0) {
      device.trouble = "rows of its memory wait to be remapped: it has to be reset";
    }
    return;
  }
  int pages = 0;  // before Ampere
  if (api.pages_pending && api.pages_pending(handle, &pages) == 0 && pages != 0)
    device.trouble = "pages of its memory wait to be retired: it has to be reset";
}

std::string Text(const Function<Return(Handle, char*, unsigned)>& get, Handle device) {
  std::array<char, kTextSize> text{};
  if (get(device, text.data(), kTextSize) != 0) return {};
  text.back() = '\0';
  return text.data();
}

int64_t MemoryMib(const Api& api, Handle device) {
  Memory memory{};
  return api.memory(device, &memory) == 0 ? static_cast<int64_t>(memory.total / kBytesPerMib) : 0;
}

std::optional<uint8_t> NumaOf(const Api& api, Handle device) {
  PciInfo pci{};
  if (!api.pci || api.pci(device, &pci) != 0) return std::nullopt;
  // The kernel's folder has four digits of the domain, in small letters.
  const std::string folder =
      fmt::format("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0/numa_node", pci.domain, pci.bus, pci.device);
  int node = -1;
  std::ifstream(folder) >> node;
  if (node < 0 || node > UINT8_MAX) return std::nullopt;
  return static_cast<uint8_t>(node);
}

// The instance's first memory slot; absent where the driver shows it to administrators only.
std::optional<uint8_t> StartOf(const Api& api, Handle device, Handle mig) {
  unsigned id = 0;
  GpuInstance instance = nullptr;
  GpuInstanceInfo info{};
  if (!api.gpu_instance_id || !api.gpu_instance || !api.gpu_instance_info ||
      api.gpu_instance_id(mig, &id) != 0 || api.gpu_instance(device, id, &instance) != 0 ||
      api.gpu_instance_info(instance, &info) != 0 || info.placement.start > UINT8_MAX)
    return std::nullopt;
  return static_cast<uint8_t>(info.placement.start);
}

std::vector<Instance> InstancesOf(const Api& api, Handle device, std::vector<std::string>& problems) {
  std::vector<Instance> instances;
  unsigned most = 0;
  if (api.max_mig(device, &most) != 0) return instances;
  bool placed = true;
  most = std::min(most, 64U);
  instances.reserve(most);
  for (unsigned i = 0; i < most; ++i) {
    Handle mig = nullptr;
    if (api.mig_by_index(device, i, &mig) != 0) continue;  // no instance has that number
    Instance instance{.memory_mib = MemoryMib(api, mig), .visible = Text(api.uuid, mig)};
    // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    const std::string name = Text(api.name, mig);
    const size_t at = name.rfind("MIG ");
    if (at == std::string::npos || instance.visible.empty()) {
      problems.push_back(fmt::format("a MIG instance called \"{}\" is not understood", name));
      continue;
    }
    instance.profile = name.substr(at + 4);
    const std::optional<uint8_t> start = StartOf(api, device, mig);
    placed = placed && start;
    instance.start = start.value_or(0);
    instances.push_back(std::move(instance));
  }
  // Without the driver's word their order serves: the slots only have to differ.
  for (size_t i = 0; i < instances.size() && !placed; ++i) instances[i].start = static_cast<uint8_t>(i);
  std::ranges::sort(instances, {}, &Instance::start);
  return instances;
}

Device Describe(const Api& api, Handle handle, unsigned index, Found& found) {
  Device device{.vendor = Vendor::kNvidia,
                .product = Text(api.name, handle),
                .memory_mib = MemoryMib(api, handle),
                .uuid = Text(api.uuid, handle),
                // Engines read numbers from CUDA_VISIBLE_DEVICES; not all read UUIDs.
                .visible = std::to_string(index),
                .numa = NumaOf(api, handle)};
  device.kind = KindOf(Vendor::kNvidia, device.product);
  unsigned current = 0;
  unsigned pending = 0;
  device.cut = api.has_mig() && api.mig_mode(handle, &current, &pending) == 0 && current != 0;
  if (device.cut) device.instances = InstancesOf(api, handle, found.problems);
  Examine(api, handle, device, found);
  return device;
}

// Each device joins the domain of the first device that it reaches.
void JoinByNvlink(const Api& api, const std::vector<Handle>& handles, std::vector<Device>& devices) {
  uint8_t domains = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    size_t first = 0;
    for (; first < i; ++first) {
      int status = 1;
      if (api.p2p && api.p2p(handles[first], handles[i], kP2pByNvlink, &status) == 0 && status == 0) break;
    }
    devices[i].link_domain = first < i ? devices[first].link_domain : domains++;
  }
}

class NvmlXids final : public XidWatch {
 public:
  explicit NvmlXids(Library library) : library_(std::move(library)), api_(library_) {}
  ~NvmlXids() override {
    if (events_ != nullptr) api_.free_events(events_);
    if (begun_) api_.shutdown();
  }

  bool Begin() {
    if (!api_.complete() || !api_.has_events() || api_.init() != 0) return false;
    begun_ = true;
    unsigned count = 0;
    if (api_.make_events(&events_) != 0 || api_.count(&count) != 0) return false;
    bool any = false;
    for (unsigned i = 0; i < count; ++i) {
      Handle handle = nullptr;
      any |= api_.by_index(i, &handle) == 0 && api_.register_events(handle, kXidEvents, events_) == 0;
    }
    return any;
  }

  std::vector<Xid> Take() override {
    constexpr size_t kMost = 1024;
    std::vector<Xid> seen;
    EventData event{};
    while (seen.size() < kMost && api_.wait_event(events_, &event, 0U) == 0) {
      if (event.type == kXidEvents) seen.push_back({Text(api_.uuid, event.device), event.data});
    }
    return seen;
  }

 private:
  const Library library_;
  const Api api_;
  EventSet events_ = nullptr;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<XidWatch> XidWatch::Open(const std::string& library_name) {
  Library library = gateway::net::OpenLibrary(library_name.c_str());
  if (!library) return nullptr;
  auto watch = std::make_unique<NvmlXids>(std::move(library));
  if (!watch->Begin()) return nullptr;
  return watch;
}

Found ProbeNvml(const std::string& library_name) {
  const Library library = gateway::net::OpenLibrary(library_name.c_str());
  if (!library) return {};
  const Api api(library);
  Found found;
  if (!api.complete()) {
    found.problems.push_back(fmt::format("{} lacks functions of NVML", library_name));
    return found;
  }
  if (const Return failed = api.init(); failed != 0) {
    found.problems.push_back(fmt::format("the driver does not answer: {}", api.Error(failed)));
    return found;
  }
  unsigned count = 0;
  if (const Return failed = api.count(&count); failed != 0)
    found.problems.push_back(fmt::format("the devices cannot be counted: {}", api.Error(failed)));
  count = std::min(count, 64U);
  std::vector<Handle> handles;
  handles.reserve(count);
  found.devices.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    Handle handle = nullptr;
    if (const Return failed = api.by_index(i, &handle); failed != 0) {
      found.problems.push_back(fmt::format("GPU {} cannot be used: {}", i, api.Error(failed)));
      continue;
    }
    found.devices.push_back(Describe(api, handle, i, found));
    handles.push_back(handle);
  }
  JoinByNvlink(api, handles, found.devices);
  api.shutdown();
  return found;
}

}  // namespace plugins::devices
