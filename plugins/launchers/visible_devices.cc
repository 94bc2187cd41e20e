#include "plugins/launchers/visible_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace plugins::launchers {
namespace {

using devices::Device;
using devices::Instance;
using devices::LocalNode;
using devices::Vendor;

struct Runtime {
  Vendor vendor;
  std::string_view variable;
  std::string_view nothing;  // its value for no device at all
};

// Where the empty text might count as not set, an id that cannot be ends the list before its first.
constexpr std::array<Runtime, 3> kRuntimes{{
    {Vendor::kNvidia, "CUDA_VISIBLE_DEVICES", ""},
    {Vendor::kAscend, "ASCEND_RT_VISIBLE_DEVICES", "-1"},
    {Vendor::kAmd, "HIP_VISIBLE_DEVICES", "-1"},
}};
// NVML numbers devices by their place on the bus; CUDA does so only with this variable.
constexpr std::string_view kCudaOrder = "CUDA_DEVICE_ORDER";

std::string Instances(const Device& device) {
  std::vector<std::string> words;
  words.reserve(device.instances.size());
  for (const Instance& i : device.instances) words.push_back(fmt::format("{} at {}", i.profile, i.start));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

absl::StatusOr<std::string> NameFor(const DeviceGrant& grant, const Device& device, uint8_t place) {
  if (!grant.kind.empty() && grant.kind != device.kind)
    return absl::InvalidArgumentError(
        fmt::format("device {} is of kind {}, not {}", place, device.kind, grant.kind));
  if (grant.partition.empty()) {
    if (!device.cut) return device.visible;
    return absl::InvalidArgumentError(fmt::format(
        "device {} is cut into instances ({}) and cannot be given whole", place, Instances(device)));
  }
  for (const Instance& i : device.instances) {
    if (i.profile == grant.partition && i.start == grant.partition_start) return i.visible;
  }
  return absl::InvalidArgumentError(fmt::format("device {} has no instance {} at {}; it has {}", place,
                                                grant.partition, grant.partition_start, Instances(device)));
}

absl::StatusOr<std::span<const Device>> DevicesOf(const DeviceGrant& grant,
                                                  std::span<const LocalNode> nodes) {
  if (grant.node.empty()) return nodes.size() == 1 ? nodes.front().devices : std::span<const Device>();
  std::vector<std::string_view> names;
  names.reserve(nodes.size());
  for (const LocalNode& node : nodes) {
    if (node.name == grant.node) return node.devices;
    names.push_back(node.name);
  }
  return absl::InvalidArgumentError(fmt::format("processes are started on this machine ({}), and not on {}",
                                                fmt::join(names, ", "), grant.node));
}

}  // namespace

bool IsVisibilityVariable(std::string_view name) {
  return name == kCudaOrder || std::ranges::find(kRuntimes, name, &Runtime::variable) != kRuntimes.end();
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> VisibleDevices(
    const DeviceGrant& grant, std::span<const LocalNode> nodes) {
  absl::StatusOr<std::span<const Device>> devices = DevicesOf(grant, nodes);
  if (!devices.ok()) return devices.status();
  std::array<std::vector<std::string>, kRuntimes.size()> given;
  std::vector<uint8_t> places = grant.devices;
  std::ranges::sort(places);  // ASCEND_RT_VISIBLE_DEVICES has to rise
  for (const uint8_t place : places) {
    if (place >= devices->size())
      return absl::InvalidArgumentError(
          fmt::format("there is no device {}; this machine has {}", place, devices->size()));
    const Device& device = (*devices)[place];
    absl::StatusOr<std::string> name = NameFor(grant, device, place);
    if (!name.ok()) return name.status();
    given[static_cast<size_t>(device.vendor)].push_back(std::move(*name));
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const Runtime& runtime : kRuntimes) {
    const std::vector<std::string>& names = given[static_cast<size_t>(runtime.vendor)];
    const bool here = std::ranges::any_of(nodes, [&](const LocalNode& node) {
      return std::ranges::find(node.devices, runtime.vendor, &Device::vendor) != node.devices.end();
    });
    // Of runtimes that have no device here only CUDA's is set: the others' confuse frameworks that look
    // at which are set.
    if (!here && runtime.vendor != Vendor::kNvidia) continue;
    out.emplace_back(runtime.variable,
                     names.empty() ? std::string(runtime.nothing) : fmt::format("{}", fmt::join(names, ",")));
    if (runtime.vendor == Vendor::kNvidia && !names.empty()) out.emplace_back(kCudaOrder, "PCI_BUS_ID");
  }
  return out;
}

}  // namespace plugins::launchers
