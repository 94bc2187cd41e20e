// The loop's beginning and its end: taking over what a process before this one has left, and leaving.
#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/control/grant.h"
#include "gateway/control/loop.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

constexpr conf::Duration kListRetry = std::chrono::seconds(1);
constexpr conf::Duration kCloseTick = std::chrono::milliseconds(20);
constexpr conf::Duration kClosePatience = std::chrono::seconds(30);

}  // namespace

// A gateway that is to leave nothing behind has to know what there is, though it was told to stop meanwhile.
bool ControlLoop::GivesUp() const {
  return closing_ && (keep_ || net::Now() >= give_up_at_);
}

net::Task<void> ControlLoop::Begin() {
  ++under_way_;
  const absl::StatusOr<std::vector<FleetEntry>> known =
      co_await net::OffLoop(loop_, [this] { return ReadFleet(around_.file); });
  if (!known.ok()) {
    log::Error("what was given to replicas is not known; those that run are ended",
               {{"why", conf::Std(known.status().message())}});
  }
  co_await OpenJobs();
  while (!GivesUp()) {
    const absl::StatusOr<std::vector<RunStatus>> runs = co_await launcher_->List();
    if (runs.ok()) {
      TakeOver(known.value_or(std::vector<FleetEntry>()), *runs, net::Now());
      jobs_.TakeOver(*runs, [this](scheduler::JobState job) { return planning_.Seat(std::move(job)); });
      trouble_.clear();
      begun_ = true;
      loop_.tasks.Spawn(metering_.Run());
      break;
    }
    trouble_ = conf::Std(runs.status().message());
    log::Error("the launcher does not say what runs; nothing is started before it does",
               {{"launcher", launcher_->name()}, {"why", trouble_}});
    co_await pause_.For(kListRetry);
  }
  --under_way_;
  if (!closing_) Wake();
}

// While it is not known which devices jobs hold, none is given to anybody.
net::Task<void> ControlLoop::OpenJobs() {
  while (!GivesUp()) {
    const absl::Status opened = co_await jobs_.Open();
    if (opened.ok()) co_return;
    trouble_ = conf::Std(opened.message());
    log::Error("it is not known which jobs there are; nothing is started before it is", {{"why", trouble_}});
    co_await pause_.For(kListRetry);
  }
}

void ControlLoop::TakeOver(const std::vector<FleetEntry>& entries, const std::vector<RunStatus>& runs,
                           conf::TimePoint now) {
  for (const FleetEntry& entry : entries) {
    const auto run = std::ranges::find(runs, entry.run, &RunStatus::id);
    if (run == runs.end()) continue;  // it was never started, or is long gone
    Replica& replica = fleet_.Adopt(entry.run, entry.model, entry.grant, entry.launched, now);
    const Pool* const pool = PoolOf(replica);
    if (run->state == RunState::kEnded) {
      replica.ended = true;
      fleet_.Enter(replica, State::kStopping, "it had ended before this gateway started", now);
    } else if (pool == nullptr) {
      fleet_.Enter(replica, State::kStopping, "its model has no policy any more", now);
    } else if (!planning_.Seat(entry.run, pool->policy, entry.grant, entry.launched)) {
      fleet_.Enter(replica, State::kStopping, "the devices that it was given are not there any more", now);
    }
    log::Info("replica found",
              {{"replica", replica.run}, {"state", Name(replica.state)}, {"why", replica.why}});
  }
}

// What is given by the plan and was asked for.
std::vector<HeldDevices> ControlLoop::Held() const {
  std::vector<HeldDevices> held;
  held.reserve(fleet_.all().size());
  const conf::TimePoint now = net::Now();
  // What a clock that was put back says of the future began when this process did, at the latest.
  const auto since = [&](conf::TimePoint at) { return at <= now ? at : began_; };
  for (const Replica& replica : fleet_.all()) {
    if (!replica.asked || replica.grant.devices.empty()) continue;
    held.push_back({.run = replica.run,
                    .model = replica.model,
                    .kind = replica.grant.kind,
                    .milli = HeldMilli(planning_.cluster(), replica.grant),
                    .since = since(replica.adopted ? replica.wanted : replica.launched)});
  }
  for (HeldDevices& holding : jobs_.Held()) {
    holding.since = since(holding.since);
    held.push_back(std::move(holding));
  }
  return held;
}

net::Task<void> ControlLoop::Close(bool keep) {
  closing_ = true;
  keep_ = keep;
  give_up_at_ = net::Now() + kClosePatience;
  jobs_.Close();
  Clear();
  pause_.Cancel();
  fetches_.Abort();
  net::Sleep tick(loop_.watchdog);
  while (!begun_ && !GivesUp()) co_await tick.For(kCloseTick);
  pause_.Cancel();
  if (!keep && !begun_)
    log::Error("replicas may be left running: it was not known in time what runs", {{"why", trouble_}});
  // What nobody knows of is found by a look, and ended too.
  const auto left = [this] { return !fleet_.all().empty() || !orphans_.empty() || !looked_; };
  while (!keep && begun_ && left() && !GivesUp()) {
    const conf::TimePoint now = net::Now();
    for (Replica& replica : fleet_.all()) {
      if (replica.state != State::kStopping) fleet_.Enter(replica, State::kStopping, "the gateway ends", now);
    }
    TakeSteps(now);
    if (!looking_) loop_.tasks.Spawn(Look());
    co_await tick.For(kCloseTick);
  }
  while (under_way_ + jobs_.under_way() > 0) co_await tick.For(kCloseTick);
  metering_.Close();
  if (begun_) (void)co_await metering_.UpToNow({});
  for (const Replica& replica : fleet_.all())
    log::Info("replica left running", {{"replica", replica.run}, {"state", Name(replica.state)}});
  co_await launcher_->Close();
}

}  // namespace gateway::control
