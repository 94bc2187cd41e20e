// What jobs hold of devices, and those that wait because their tenant has used up what it may hold.
#include <utility>

#include "gateway/control/grant.h"
#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kLookAtBudgets = std::chrono::seconds(1);

}  // namespace

std::vector<HeldDevices> Jobs::Held() const {
  std::vector<HeldDevices> held;
  for (const Job& job : jobs_) {
    if (!job.holds()) continue;
    std::map<std::string, int64_t> milli;
    for (const JobMember& member : job.members) {
      if (member.at.holding.node >= around_.cluster->nodes.size()) continue;
      const plugins::launchers::Grant grant = GrantOf(*around_.cluster, member.at.holding);
      if (!grant.kind.empty()) milli[grant.kind] += HeldMilli(*around_.cluster, grant);
    }
    for (const auto& [kind, sum] : milli) {
      held.push_back(
          {.job = job.id, .tenant = job.file().job.tenant, .kind = kind, .milli = sum, .since = job.started});
    }
  }
  return held;
}

std::string Jobs::UsedUp(const config::JobFile& file) const {
  if (file.job.tenant.empty()) return {};
  std::vector<scheduler::DeviceAsk> asks;
  for (const scheduler::Role& role : file.job.roles)
    asks.insert(asks.end(), role.ask.devices.begin(), role.ask.devices.end());
  return around_.devices_used_up(file.job.tenant, KindsOf(*around_.cluster, asks));
}

// A job that may not start is none of the planner's.
void Jobs::LookAtBudgets() {
  const conf::TimePoint now = around_.now();
  if (now < next_budgets_) return;
  next_budgets_ = now + kLookAtBudgets;
  std::map<const Submission*, std::string> known;  // elements of an array are alike
  for (Job& job : jobs_) {
    if (job.state != JobState::kPending || job.held) continue;
    const auto [why, asked] = known.try_emplace(job.of.get());
    if (asked) why->second = UsedUp(job.file());
    if (why->second.empty()) {
      if (std::exchange(job.withheld, false)) AskPlanner(job);
    } else {
      if (!std::exchange(job.withheld, true)) LeavePlanner(job);
      job.unplaced = why->second;
    }
  }
}

}  // namespace gateway::control
