#include "gateway/control/devices/device_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

using plugins::launchers::DeviceFault;

constexpr conf::Duration kFaultsRetry = std::chrono::seconds(1);

}  // namespace

// One fault for each device: the launcher's report counts, unless the readings say that the device is lost.
std::vector<DeviceFault> DeviceFaults::Reported() const {
  std::vector<DeviceFault> faults;
  if (const plugins::launchers::DeviceFaults* const said = context_.launcher->faults()) faults = said->faults;
  for (DeviceFault& fault : measured_()) {
    const auto same = std::ranges::find_if(
        faults, [&](const DeviceFault& one) { return one.node == fault.node && one.device == fault.device; });
    if (same == faults.end()) {
      faults.push_back(std::move(fault));
    } else if (fault.lost && !same->lost) {
      *same = std::move(fault);
    }
  }
  return faults;
}

void DeviceFaults::Tick() {
  if (recording_ || context_.now() < next_ || Reported() == known_) return;
  context_.spawn(RecordChanges());
}

net::Task<bool> DeviceFaults::Record(std::string action, DeviceFault fault, std::string why) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = "control";
  event.subject = fmt::format("{}/{}", fault.node, fault.device);
  event.detail = nlohmann::ordered_json({{"reason", why}, {"lost", fault.lost}, {"held_by", holders_(fault)}})
                     .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string subject = event.subject;
  const absl::Status recorded = co_await context_.record(std::move(event));
  if (!recorded.ok()) {
    log::Error("a device fault cannot be recorded, so it is not applied yet; retrying",
               {{"device", subject}, {"why", conf::Std(recorded.message())}});
    next_ = context_.now() + kFaultsRetry;
    co_return false;
  }
  log::Warn(action, {{"device", subject}, {"why", why}});
  co_return true;
}

net::Task<void> DeviceFaults::RecordChanges() {
  recording_ = true;
  const std::vector<DeviceFault> faults = Reported();
  bool told = true;
  for (const DeviceFault& fault : faults) {
    if (std::ranges::find(known_, fault) != known_.end()) continue;
    if (told) told = co_await Record("device.quarantine", fault, fault.why);
  }
  for (const DeviceFault& was : std::vector(known_)) {
    const auto same = [&](const DeviceFault& f) { return f.node == was.node && f.device == was.device; };
    if (told && std::ranges::none_of(faults, same))
      told = co_await Record("device.trust", was, "nothing is wrong with it");
  }
  if (told) {
    const std::vector<DeviceFault> before = std::exchange(known_, faults);
    context_.planning->UpdateFaults(known_, context_.now());
    for (const DeviceFault& fault : known_) {
      if (fault.lost && std::ranges::find(before, fault) == before.end()) on_lost_(fault);
    }
  }
  recording_ = false;
  context_.wake();
}

}  // namespace gateway::control
