#include "plugins/devices/power_limit.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "conf/text.h"
#include "plugins/devices/nvml_api.h"

namespace plugins::devices {
namespace {

using namespace nvml;

struct PowerLimitApi : BasicApi {
  explicit PowerLimitApi(const Library& library)
      : BasicApi(library),
        by_uuid(library, "nvmlDeviceGetHandleByUUID"),
        limit(library, "nvmlDeviceGetPowerManagementLimit"),
        bounds(library, "nvmlDeviceGetPowerManagementLimitConstraints"),
        set(library, "nvmlDeviceSetPowerManagementLimit") {}

  bool complete() const { return BasicApi::complete() && by_uuid && limit && bounds && set; }

  absl::Status Failed(std::string_view what, Return code) const {
    const char* const text = error_string ? error_string(code) : nullptr;
    const std::string why =
        fmt::format("{}: {}", what, text != nullptr ? text : fmt::format("error {}", code));
    if (code == kNoPermission) return absl::PermissionDeniedError(conf::Abseil(why));
    if (code == kNotFound) return absl::NotFoundError(conf::Abseil(why));
    if (code == kNotSupported) return absl::UnimplementedError(conf::Abseil(why));
    return absl::UnavailableError(conf::Abseil(why));
  }

  Function<Return(const char*, Handle*)> by_uuid;
  Function<Return(Handle, unsigned*)> limit;  // milliwatts, as the others
  Function<Return(Handle, unsigned*, unsigned*)> bounds;
  Function<Return(Handle, unsigned)> set;
};

// Calls `use` with the device, between the begin and the end of a session with the driver.
template <class Use>
absl::Status WithDevice(const std::string& uuid, const std::string& name, Use use) {
  const Library library = gateway::net::OpenLibrary(name.c_str());
  if (!library) return absl::UnavailableError(conf::Abseil(fmt::format("{} cannot be loaded", name)));
  const PowerLimitApi api(library);
  if (!api.complete())
    return absl::UnimplementedError(conf::Abseil(fmt::format("{} lacks functions for power limits", name)));
  if (const Return failed = api.init(); failed != kSuccess)
    return api.Failed("the driver does not answer", failed);
  Handle device = nullptr;
  const Return found = api.by_uuid(uuid.c_str(), &device);
  absl::Status done = found == kSuccess ? use(api, device) : api.Failed("there is no such device", found);
  api.shutdown();
  return done;
}

}  // namespace

absl::StatusOr<PowerLimit> ReadPowerLimit(const std::string& uuid, const std::string& library) {
  PowerLimit out;
  const absl::Status read = WithDevice(uuid, library, [&](const PowerLimitApi& api, Handle device) {
    unsigned now = 0;
    unsigned least = 0;
    unsigned most = 0;
    if (const Return failed = api.limit(device, &now); failed != kSuccess)
      return api.Failed("its power limit cannot be read", failed);
    if (const Return failed = api.bounds(device, &least, &most); failed != kSuccess)
      return api.Failed("the bounds of its power limit cannot be read", failed);
    out = {.now = now / 1000.0, .least = least / 1000.0};
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return out;
}

absl::Status SetPowerLimit(const std::string& uuid, double watts, const std::string& library) {
  return WithDevice(uuid, library, [&](const PowerLimitApi& api, Handle device) {
    const Return failed = api.set(device, static_cast<unsigned>(std::lround(watts * 1000)));
    return failed == kSuccess ? absl::OkStatus() : api.Failed("its power limit cannot be set", failed);
  });
}

}  // namespace plugins::devices
