#include "gateway/control/workloads/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "gateway/control/workloads/grant.h"

namespace gateway::control {
namespace {

constexpr conf::Word<State> kStateWords[] = {{"pending", State::kPending},   {"placed", State::kPlaced},
                                             {"starting", State::kStarting}, {"running", State::kRunning},
                                             {"asleep", State::kAsleep},     {"saving", State::kSaving},
                                             {"draining", State::kDraining}, {"stopped", State::kStopped}};
constexpr conf::Word<Afterwards> kAfterwardsWords[] = {
    {"sleeps", Afterwards::kSleeps},   {"resizes", Afterwards::kResizes},   {"waits", Afterwards::kWaits},
    {"retries", Afterwards::kRetries}, {"suspends", Afterwards::kSuspends}, {"ends", Afterwards::kEnds},
    {"fails", Afterwards::kFails},     {"cancels", Afterwards::kCancels}};
constexpr conf::Word<Outcome> kOutcomeWords[] = {{"none", Outcome::kNone},
                                                 {"suspended", Outcome::kSuspended},
                                                 {"done", Outcome::kDone},
                                                 {"failed", Outcome::kFailed},
                                                 {"cancelled", Outcome::kCancelled}};
constexpr std::array<std::string_view, 9> kJobStateNames = {
    "pending", "starting", "running", "saving", "stopping", "suspended", "done", "failed", "cancelled"};

constexpr std::string_view kReplicaPrefix = "r-";
constexpr std::string_view kJobPrefix = "j-";
constexpr size_t kMostOfModel = 40;  // characters, of a run's id

// Launchers accept ids of lower-case letters, digits, '.' and '-'.
std::string SlugOf(std::string_view model) {
  std::string slug;
  for (const char c : model.substr(0, kMostOfModel)) {
    if (c >= 'A' && c <= 'Z') {
      slug += static_cast<char>(c - 'A' + 'a');
    } else {
      slug += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ? c : '-';
    }
  }
  return slug;
}

}  // namespace

std::string_view Name(State state) {
  return conf::WordOf(kStateWords, state);
}
std::optional<State> ParseState(std::string_view name) {
  return conf::ValueOf(kStateWords, name);
}
std::string_view Name(Afterwards afterwards) {
  return conf::WordOf(kAfterwardsWords, afterwards);
}
std::optional<Afterwards> ParseAfterwards(std::string_view name) {
  return conf::ValueOf(kAfterwardsWords, name);
}
std::string_view Name(Outcome outcome) {
  return conf::WordOf(kOutcomeWords, outcome);
}
std::optional<Outcome> ParseOutcome(std::string_view name) {
  return conf::ValueOf(kOutcomeWords, name);
}

bool Workload::asked() const {
  return std::ranges::any_of(members, &Member::asked);
}

bool Workload::all_ended() const {
  return std::ranges::all_of(members, &Member::ended);
}

uint64_t Workload::devices() const {
  uint64_t count = 0;
  for (const Member& member : members)
    count += static_cast<uint64_t>(std::popcount(member.at.holding.devices));
  return count;
}

double Workload::DeviceSeconds(const scheduler::Cluster& cluster, conf::TimePoint until) const {
  double seconds = device_seconds;
  if (!holds()) return seconds;
  for (const Member& member : members) {
    if (!member.began || member.at.holding.node >= cluster.nodes.size()) continue;
    const conf::Duration held = std::max(member.gone.value_or(until) - *member.began, conf::Duration::zero());
    const int64_t milli = HeldMilli(cluster, GrantOf(cluster, member.at.holding));
    seconds += conf::ToSeconds(held) * static_cast<double>(milli) / scheduler::kWholeDevice;
  }
  return seconds;
}

conf::Duration Workload::kept() const {
  if (kind != Kind::kJob || !holds() || checkpointed == conf::TimePoint()) return done;
  const conf::Duration restart =
      done > conf::Duration::zero() ? file().job.checkpoint.restart : conf::Duration::zero();
  return done + std::max(checkpointed - started - restart, conf::Duration::zero());
}

uint32_t Workload::in_flight() const {
  const int64_t requests = serving.load ? serving.load->load.requests() : 0;
  return static_cast<uint32_t>(std::clamp<int64_t>(requests, 0, UINT32_MAX));
}

std::string HowEnded(const Member& member) {
  std::string how = member.exit_code ? fmt::format("exited with {}", *member.exit_code)
                    : member.signal  ? fmt::format("was ended by signal {}", *member.signal)
                                     : "ended";
  if (!member.why.empty()) how += ": " + member.why;
  return how;
}

std::string_view MemberStateOf(const Member& member) {
  if (member.ended) return "ended";
  if (member.running) return "running";
  return member.began ? "stopping" : "starting";
}

std::string_view JobStateOf(const Workload& job) {
  switch (job.state) {
    case State::kPlaced:
      return Name(State::kStarting);
    case State::kDraining:
      return "stopping";
    case State::kStopped:
      return Name(job.outcome);
    default:
      return Name(job.state);
  }
}

bool IsJobState(std::string_view word) {
  return std::ranges::find(kJobStateNames, word) != kJobStateNames.end();
}

bool IsOver(std::string_view job_state) {
  const std::optional<Outcome> outcome = ParseOutcome(job_state);
  return outcome && *outcome > Outcome::kSuspended;
}

std::string RunId(const Workload& workload, uint32_t rank) {
  if (workload.kind == Kind::kJob)
    return fmt::format("{}{}-{}-{}", kJobPrefix, workload.id, workload.attempt, rank);
  return rank == 0 ? workload.id : fmt::format("{}-{}", workload.id, rank);
}

std::string ReplicaId(std::string_view model, int64_t stamp) {
  return fmt::format("{}{}-{:x}", kReplicaPrefix, SlugOf(model), stamp);
}

bool IsReplicaRun(std::string_view run) {
  return run.starts_with(kReplicaPrefix);
}
bool IsJobRun(std::string_view run) {
  return run.starts_with(kJobPrefix);
}

}  // namespace gateway::control
