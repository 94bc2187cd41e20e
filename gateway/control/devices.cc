// What the loop does about devices that have a fault: nothing new is given them, and what runs on one that is
// lost is started again elsewhere. What runs on one that only has a fault is left to its own probes.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/control/loop.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::control {
namespace {

using plugins::launchers::DeviceFault;

constexpr conf::Duration kFaultsRetry = std::chrono::seconds(1);

}  // namespace

void ControlLoop::WatchDevices(conf::TimePoint now) {
  const plugins::launchers::DeviceFaults* const known = launcher_->faults();
  if (known == nullptr || telling_of_faults_ || now < next_faults_ || known->faults == faults_) return;
  loop_.tasks.Spawn(TellOfFaults());
}

// The planner is told once it is in the ledger.
net::Task<void> ControlLoop::TellOfFaults() {
  telling_of_faults_ = true;
  ++under_way_;
  const std::vector<DeviceFault> faults = launcher_->faults()->faults;
  const auto tell = [this](const char* action, const DeviceFault& fault, std::string why) -> net::Task<bool> {
    ledger::Event event;
    event.kind = ledger::Kind::kAction;
    event.action = action;
    event.actor = "control";
    event.subject = fmt::format("{}/{}", fault.node, fault.device);
    event.detail = nlohmann::ordered_json({{"reason", why}, {"lost", fault.lost}})
                       .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    const std::string subject = event.subject;
    const absl::Status recorded = co_await around_.record(std::move(event));
    if (!recorded.ok()) {
      log::Error("a device's fault is not recorded, and not acted on; it is tried again",
                 {{"device", subject}, {"why", conf::Std(recorded.message())}});
      next_faults_ = net::Now() + kFaultsRetry;
      co_return false;
    }
    log::Warn(action, {{"device", subject}, {"why", why}});
    co_return true;
  };
  bool told = true;
  for (const DeviceFault& fault : faults) {
    if (std::ranges::find(faults_, fault) != faults_.end()) continue;
    if (told) told = co_await tell("device.quarantine", fault, fault.why);
  }
  for (const DeviceFault& was : std::vector(faults_)) {
    const auto same = [&](const DeviceFault& f) { return f.node == was.node && f.device == was.device; };
    if (told && std::ranges::none_of(faults, same))
      told = co_await tell("device.trust", was, "nothing is wrong with it");
  }
  if (told) {
    const std::vector<DeviceFault> before = std::exchange(faults_, faults);
    planning_.See(faults_, net::Now());
    for (const DeviceFault& fault : faults_) {
      if (fault.lost && std::ranges::find(before, fault) == before.end()) Lose(fault, net::Now());
    }
  }
  telling_of_faults_ = false;
  --under_way_;
  if (!closing_) Wake();
}

void ControlLoop::Lose(const DeviceFault& fault, conf::TimePoint now) {
  for (Replica& replica : fleet_.all()) {
    if (replica.grant.node != fault.node || replica.state == State::kStopping) continue;
    if (std::ranges::find(replica.grant.devices, fault.device) == replica.grant.devices.end()) continue;
    Fail(replica, fmt::format("device {} of {}: {}", fault.device, fault.node, fault.why), now, true);
  }
  jobs_.Lose(fault);
}

}  // namespace gateway::control
