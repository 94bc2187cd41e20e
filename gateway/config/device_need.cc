#include "gateway/config/device_need.h"

#include <algorithm>
#include <string>

#include "conf/reader.h"
#include "gateway/config/types.h"
#include "scheduler/io/units.h"
#include "scheduler/model.h"

namespace gateway::config {

void Bind(conf::Object& o, DeviceNeed& device) {
  std::string kind;
  double share = 0;
  o.Optional("kind", kind, ValidName());
  o.Optional("count", device.ask.count, conf::Range{uint16_t{1}, uint16_t{scheduler::kMaxDevices}});
  o.Optional("share", share, conf::Range{0.001, 0.999});
  o.Optional("profile", device.ask.profile, ValidName());
  o.Optional("memory", scheduler::io::Mebibytes(device.ask.memory_mib));
  if (!kind.empty()) device.ask.kinds = {std::move(kind)};
  device.ask.milli = static_cast<uint16_t>(std::clamp(share * 1000 + 0.5, 0.0, 999.0));
  const int ways = (device.ask.count > 0) + (device.ask.milli > 0) + !device.ask.profile.empty();
  if (ways == 0) device.ask.count = 1;
  if (ways > 1) o.Error("give only one of count, share and profile");
}

}  // namespace gateway::config
