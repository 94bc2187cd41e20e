#include "gateway/control/jobs/job_records.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/json_dump.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/control/workloads/provenance.h"

namespace gateway::control {
namespace {

using nlohmann::ordered_json;
using plugins::launchers::DeviceGrant;

constexpr size_t kMembersInDetail = 64;     // of a record
constexpr size_t kMostDetail = 192 * 1024;  // of a record that has a job file

ordered_json InJson(const DeviceGrant& grant) {
  return {{"node", grant.node}, {"kind", grant.kind}, {"devices", grant.devices}};
}

DeviceGrant GrantAt(const Member& member, const scheduler::Cluster& cluster) {
  return member.at.holding.node < cluster.nodes.size() ? GrantOf(cluster, member.at.holding) : DeviceGrant();
}

ordered_json DetailOf(const Workload& job) {
  ordered_json detail = {{"reason", job.why}, {"attempt", job.attempt}, {"members", job.members.size()}};
  if (job.state <= State::kStarting) detail["resumes"] = job.resumes;
  if (job.state == State::kSaving) detail["saves"] = true;
  return detail;
}

conf::TimePoint BeginOfRuns(const Workload& job) {
  std::optional<conf::TimePoint> began;
  for (const Member& member : job.members) {
    if (member.began) began = std::min(began.value_or(*member.began), *member.began);
  }
  return began.value_or(job.started);
}

std::optional<conf::TimePoint> EndOfRuns(const Workload& job) {
  std::optional<conf::TimePoint> gone;
  for (const Member& member : job.members) {
    if (member.gone) gone = std::max(gone.value_or(*member.gone), *member.gone);
  }
  return gone;
}

}  // namespace

std::string DetailOfSubmission(const Submission& submission, size_t jobs) {
  const std::string& rerun_of = submission.provenance.rerun_of;
  ordered_json detail = {{"name", submission.file.name},
                         {"jobs", jobs},
                         {"number", submission.number},
                         {"queue", submission.file.job.queue},
                         {"file", submission.file.file},
                         {"provenance", ordered_json::parse(WriteProvenance(submission.provenance))},
                         {"text", submission.text}};
  if (!rerun_of.empty()) detail["rerun_of"] = rerun_of;
  if (!submission.parameters.empty()) detail["parameters"] = submission.parameters;
  std::string text = conf::DumpJson(detail);
  if (text.size() <= kMostDetail) return text;
  detail.erase("text");
  detail.erase("parameters");
  return conf::DumpJson(detail);
}

std::string DetailOfStep(const Workload& job, const scheduler::Cluster& cluster) {
  ordered_json detail = DetailOf(job);
  if (job.moves()) {
    detail["gain"] = job.gain;
    ordered_json to = ordered_json::array();
    for (const scheduler::MemberAt& at : job.next) {
      if (to.size() < kMembersInDetail) to.push_back(InJson(GrantOf(cluster, at.holding)));
    }
    detail["to"] = std::move(to);
  }
  ordered_json places = ordered_json::array();
  for (const Member& member : job.members) {
    if (places.size() < kMembersInDetail) places.push_back(InJson(GrantAt(member, cluster)));
  }
  detail["places"] = std::move(places);
  return conf::DumpJson(detail);
}

std::string DetailOfEnd(const Workload& job, const scheduler::Cluster& cluster, conf::TimePoint now) {
  ordered_json detail = DetailOf(job);
  std::map<std::string, int64_t> held;
  for (const Member& member : job.members) {
    const DeviceGrant grant = GrantAt(member, cluster);
    if (!grant.kind.empty()) held[grant.kind] += HeldMilli(cluster, grant);
  }
  const double seconds = conf::ToSeconds(EndOfRuns(job).value_or(now) - BeginOfRuns(job));
  detail["seconds"] = seconds;
  ordered_json device_seconds = ordered_json::object();
  for (const auto& [kind, milli] : held) device_seconds[kind] = static_cast<double>(milli) * 1e-3 * seconds;
  detail["device_seconds"] = std::move(device_seconds);
  const bool fails = job.afterwards == Afterwards::kRetries && !job.blameless;
  const bool used_up = fails && job.restarts >= job.file().job.restart_budget;
  detail["outcome"] = Name(used_up ? Afterwards::kFails : job.afterwards);
  detail["restarts"] = job.restarts + (fails && !used_up ? 1 : 0);
  detail["resumes"] = job.resumes || job.checkpointed != conf::TimePoint();
  return conf::DumpJson(detail);
}

}  // namespace gateway::control
