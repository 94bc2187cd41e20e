#include "gateway/control/jobs/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "gateway/config/cut_devices.h"

namespace gateway::control {
namespace {

constexpr std::array<std::string_view, kJobStates> kStateNames = {
    "pending", "starting", "running", "saving", "stopping", "suspended", "done", "failed", "cancelled"};
constexpr std::array<std::string_view, kAfterwards> kAfterwardsNames = {
    "resizes", "waits", "retries", "suspends", "ends", "fails", "cancels"};

constexpr std::string_view kPrefix = "j-";

template <class E, size_t N>
std::optional<E> Parse(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) return std::nullopt;
  return static_cast<E>(at - names.begin());
}

}  // namespace

std::string_view Name(JobState state) {
  return kStateNames[static_cast<size_t>(state)];
}
std::optional<JobState> ParseJobState(std::string_view name) {
  return Parse<JobState>(kStateNames, name);
}
std::string_view Name(Afterwards afterwards) {
  return kAfterwardsNames[static_cast<size_t>(afterwards)];
}
std::optional<Afterwards> ParseAfterwards(std::string_view name) {
  return Parse<Afterwards>(kAfterwardsNames, name);
}

bool Job::all_ended() const {
  return std::ranges::all_of(members, &JobMember::ended);
}

uint64_t Job::devices() const {
  uint64_t count = 0;
  for (const JobMember& member : members)
    count += static_cast<uint64_t>(std::popcount(member.at.holding.devices));
  return count;
}

conf::Duration Job::kept() const {
  if (!holds() || checkpointed == conf::TimePoint()) return done;
  const conf::Duration restart =
      done > conf::Duration::zero() ? file().job.checkpoint.restart : conf::Duration::zero();
  return done + std::max(checkpointed - started - restart, conf::Duration::zero());
}

scheduler::Job AskOf(const Job& job, const std::vector<std::string>& uncut) {
  scheduler::Job ask = job.file().job;
  ask.id = job.id;
  ask.user = job.of->user;
  ask.submitted = job.of->at;
  if (ask.estimate && job.done > conf::Duration::zero()) {
    const conf::Duration left = *ask.estimate - job.done;
    ask.estimate = std::max<conf::Duration>(left, std::chrono::seconds(1)) + ask.checkpoint.restart;
  }
  for (scheduler::Role& role : ask.roles) config::AskForUncut(role.ask, uncut);
  ask.after.clear();  // it is not asked for before those have ended
  if (job.file().elements > 0) ask.array = job.of->id;
  return ask;
}

std::string RunId(const Job& job, uint32_t rank) {
  return fmt::format("{}{}-{}-{}", kPrefix, job.id, job.attempt, rank);
}

bool IsJobRun(std::string_view run) {
  return run.starts_with(kPrefix);
}

}  // namespace gateway::control
