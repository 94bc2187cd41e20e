#include "plugins/devices/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plugins/devices/builtin.h"

namespace plugins::devices {
namespace {

struct Meaning {
  uint64_t xid;
  std::string_view text;
};
// From NVIDIA's catalogue (https://docs.nvidia.com/deploy/xid-errors/): the Xids after which a GPU needs a reset, a restart of its machine, or service.
constexpr std::array kMeanings = {
    Meaning{46, "it has stopped processing"},
    Meaning{48, "an ECC error of two bits"},
    Meaning{54, "its auxiliary power is not connected"},
    Meaning{62, "its microcontroller has halted"},
    Meaning{64, "a row could not be remapped, or a page not retired"},
    Meaning{74, "an error of NVLink"},
    Meaning{79, "it has fallen off the bus"},
    Meaning{92, "many ECC errors of one bit"},
    Meaning{94, "a contained ECC error"},
    Meaning{95, "an uncontained ECC error"},
    Meaning{110, "a security fault"},
    Meaning{119, "its GSP does not answer"},
    Meaning{120, "its GSP has failed"},
    Meaning{136, "its link training has failed"},
    Meaning{140, "an ECC error that was not recovered"},
    Meaning{143, "its initialization has failed"},
};
constexpr uint64_t kOffTheBus = 79;

}  // namespace

const std::string& KeyOf(const Device& device) {
  return device.uuid.empty() ? device.visible : device.uuid;
}

std::string_view MeaningOfXid(uint64_t xid) {
  const auto found = std::ranges::find(kMeanings, xid, &Meaning::xid);
  return found == kMeanings.end() ? std::string_view() : found->text;
}

bool IsLostByXid(uint64_t xid) {
  return xid == kOffTheBus;
}

FaultWatch::FaultWatch(std::vector<Device> known, std::vector<Probe> probes, const std::string& library)
    : known_(std::move(known)), probes_(std::move(probes)), xids_(XidWatch::Open(library)) {}

std::map<std::string, Fault> FaultWatch::FindFaults() {
  if (xids_) {
    for (const Xid& seen : xids_->Take()) {
      const std::string_view meaning = MeaningOfXid(seen.number);
      if (meaning.empty()) continue;
      Fault& fault = reported_[seen.uuid];
      fault.why = fmt::format("its driver has reported Xid {}: {}", seen.number, meaning);
      fault.lost |= IsLostByXid(seen.number);
    }
  }
  const Found found = ProbeDevices(probes_);
  std::map<std::string, Fault> faults;
  const std::set<std::string> missed = std::exchange(missing_, {});
  for (const Device& device : known_) {
    const std::string& key = KeyOf(device);
    const auto of_vendor = [&](const Device& other) { return other.vendor == device.vendor; };
    const auto now = std::ranges::find_if(
        found.devices, [&](const Device& other) { return of_vendor(other) && KeyOf(other) == key; });
    if (now == found.devices.end()) {
      missing_.insert(key);
      if (!missed.contains(key)) continue;  // a tool that failed once
      // Where a tool reports no device at all, the tool itself may be broken.
      const bool others = std::ranges::any_of(found.devices, of_vendor);
      faults[key] = {
          .why = others ? "it is lost: its driver no longer lists it" : "its driver no longer answers",
          .lost = others};
    } else if (!now->trouble.empty()) {
      faults[key] = {.why = now->trouble,
                     .lost = std::ranges::find(found.lost, device.uuid) != found.lost.end()};
    }
    if (const auto xid = reported_.find(key); xid != reported_.end() && !faults.contains(key))
      faults[key] = xid->second;
  }
  return faults;
}

}  // namespace plugins::devices
