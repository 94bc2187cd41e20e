#include "plugins/devices/declared.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "scheduler/model.h"

namespace plugins::devices {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;

}  // namespace

void Bind(conf::Object& o, DeclaredDevices& d) {
  o.Required("kind", d.kind, conf::NotEmpty());
  o.Optional("count", d.count, conf::Range<uint16_t>{1, scheduler::kMaxDevices});
  o.Optional("memory", conf::Size(d.memory_bytes));
  o.Optional("vendor", conf::Choice(d.vendor, "vendor", kVendorWords));
  o.Optional("ids", d.ids);
  o.Optional("link_domains", d.link_domains, conf::AtLeast<uint16_t>{1});
  o.Optional("numa", d.numa, conf::AtLeast<uint16_t>{1});
  if (!o.reading()) return;
  if (!d.ids.empty() && d.ids.size() != d.count)
    o.Error(fmt::format("{} ids for {} devices", d.ids.size(), d.count), "ids");
  if (d.count % d.link_domains != 0)
    o.Error(fmt::format("{} devices cannot be {} groups of equal size", d.count, d.link_domains),
            "link_domains");
  if (d.count % d.numa != 0)
    o.Error(fmt::format("{} devices cannot be {} groups of equal size", d.count, d.numa), "numa");
}

std::vector<Device> DevicesOf(const std::vector<DeclaredDevices>& declared) {
  std::vector<Device> devices;
  std::array<uint16_t, kVendorWords.size()> next{};
  uint16_t domains = 0;
  for (const DeclaredDevices& d : declared) {
    devices.reserve(devices.size() + d.count);
    for (uint16_t i = 0; i < d.count; ++i) {
      const uint16_t index = next[static_cast<size_t>(d.vendor)]++;
      devices.push_back({.vendor = d.vendor,
                         .kind = d.kind,
                         .product = d.kind,
                         .memory_mib = static_cast<int64_t>(d.memory_bytes / kMib),
                         .visible = d.ids.empty() ? std::to_string(index) : d.ids[i],
                         .numa = static_cast<uint8_t>(i / (d.count / d.numa)),
                         .link_domain = static_cast<uint8_t>(domains + i / (d.count / d.link_domains))});
    }
    domains = static_cast<uint16_t>(domains + d.link_domains);
  }
  return devices;
}

}  // namespace plugins::devices
