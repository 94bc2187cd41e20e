#include "gateway/control/workload_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/control/workloads/provenance.h"
#include "gateway/control/workloads/workload_record.h"
#include "gateway/store/kinds.h"
#include "plugins/engines/engine_key.h"

namespace gateway::control {
namespace {

using nlohmann::json;
using plugins::launchers::DeviceGrant;
using plugins::launchers::RunState;
using plugins::launchers::RunStatus;

// The number after the last dash; 0: there is none.
uint64_t NumberOf(std::string_view id) {
  const size_t dash = id.rfind('-');
  if (dash == std::string_view::npos) return 0;
  id.remove_prefix(dash + 1);
  return conf::ReadNumber<uint64_t>(id.substr(0, id.find('.'))).value_or(0);
}

std::string TextOf(const json& detail, const char* key) {
  const auto at = detail.find(key);
  return at != detail.end() && at->is_string() ? at->get<std::string>() : std::string();
}

uint32_t CountOf(const json& detail, const char* key, uint32_t otherwise = 0) {
  const auto at = detail.find(key);
  return at != detail.end() && at->is_number_unsigned() ? at->get<uint32_t>() : otherwise;
}

bool IsSaid(const json& detail, const char* key) {
  const auto at = detail.find(key);
  return at != detail.end() && at->is_boolean() && at->get<bool>();
}

// The places of members, as the ledger records them.
std::vector<DeviceGrant> PlacesOf(const json& places) {
  std::vector<DeviceGrant> grants;
  for (const json& place : places) {
    if (!place.is_object()) continue;
    DeviceGrant& grant = grants.emplace_back();
    grant.node = TextOf(place, "node");
    grant.kind = TextOf(place, "kind");
    const auto devices = place.find("devices");
    if (devices == place.end() || !devices->is_array()) continue;
    for (const json& device : *devices) {
      if (device.is_number_unsigned()) grant.devices.push_back(device.get<uint8_t>());
    }
  }
  return grants;
}

// A run of a job, by its id: "j-JOB-ATTEMPT-RANK".
struct JobRun {
  std::string job;
  uint32_t attempt = 0;
  uint32_t rank = 0;
};
std::optional<JobRun> ParseJobRun(std::string_view run) {
  if (!IsJobRun(run)) return std::nullopt;
  run.remove_prefix(2);
  const size_t second = run.rfind('-');
  const size_t first =
      second == 0 || second == std::string_view::npos ? std::string_view::npos : run.rfind('-', second - 1);
  if (first == std::string_view::npos) return std::nullopt;
  const auto attempt = conf::ReadNumber<uint32_t>(run.substr(first + 1, second - first - 1));
  const auto rank = conf::ReadNumber<uint32_t>(run.substr(second + 1));
  if (!attempt || !rank || *rank >= 4096) return std::nullopt;
  return JobRun{std::string(run.substr(0, first)), *attempt, *rank};
}

}  // namespace

// --- Records of the ledger ---

void WorkloadHistory::Take(const ledger::Record& record) {
  if (record.kind != ledger::Kind::kAction) return;
  if (record.action == "job.submit") return TakeSubmission(record);
  if (record.action.starts_with("job.")) return TakeJob(record);
  if (record.action.starts_with("replica.")) TakeReplica(record);
}

void WorkloadHistory::TakeReplica(const ledger::Record& record) {
  PastReplica& replica = replicas_[record.subject];
  // A sleeper does not get its devices again: they may be another workload's, and a cold start is safe.
  if (record.action == "replica.drain" || record.action == "replica.stop" || record.action == "replica.sleep")
    replica.ends = true;
  if (record.action == "replica.ready") replica.ends = false;
  const json detail = conf::ParseJson(record.detail);
  if (!detail.is_object() || record.action != "replica.launch") return;
  replica.model = TextOf(detail, "model");
  replica.version = TextOf(detail, "version");
  replica.places = detail.contains("members") ? PlacesOf(detail["members"]) : PlacesOf(json::array({detail}));
}

void WorkloadHistory::TakeSubmission(const ledger::Record& record) {
  const json detail = conf::ParseJson(record.detail);
  if (!detail.is_object()) return;
  last_number_ = std::max(last_number_, NumberOf(record.subject));
  uint32_t elements = CountOf(detail, "jobs", 1);
  if (elements == 1) elements = 0;
  const std::string text = TextOf(detail, "text");
  const std::string parameters = TextOf(detail, "parameters");
  auto loaded = config::ReadJobFile(text, TextOf(detail, "file"), config::ReferencesOnly(), parameters);
  if (!text.empty() && loaded.value) {
    auto submission = std::make_shared<Submission>();
    submission->id = record.subject;
    submission->number = NumberOf(record.subject);
    submission->text = text;
    submission->parameters = parameters;
    const auto provenance = detail.find("provenance");
    submission->provenance =
        ReadProvenance(provenance == detail.end() ? std::string() : provenance->dump(), record.subject);
    submission->file = *std::move(loaded.value);
    submission->file.job.queue = TextOf(detail, "queue");
    submission->file.job.tenant = record.tenant;
    submission->user = record.actor;
    submission->at = conf::FromUnixMicros(record.time_us);
    elements = submission->file.elements;
    submissions_[record.subject] = std::move(submission);
  }
  for (uint32_t element = 0; element < std::max(1U, elements); ++element) {
    PastJob& job = jobs_[elements > 0 ? fmt::format("{}.{}", record.subject, element) : record.subject];
    job.of = record.subject;
    job.element = element;
    job.since = conf::FromUnixMicros(record.time_us);
    job.why = "it waits for devices";
    job.actor = record.actor;
  }
}

void WorkloadHistory::TakeJob(const ledger::Record& record) {
  const json parsed = conf::ParseJson(record.detail);
  const json detail = parsed.is_object() ? parsed : json::object();
  PastJob& job = jobs_[record.subject];
  if (job.of.empty()) job.of = record.subject;  // its submission is in a segment that was removed
  job.since = conf::FromUnixMicros(record.time_us);
  job.actor = record.actor;
  if (std::string why = TextOf(detail, "reason"); !why.empty()) job.why = std::move(why);
  if (record.action == "job.start") {
    job.state = State::kRunning;
    job.started = job.since;
    job.attempt = CountOf(detail, "attempt", job.attempt + 1);
    job.members = CountOf(detail, "members", 1);
    job.resumes = IsSaid(detail, "resumes");
    job.places = detail.contains("places") ? PlacesOf(detail["places"]) : std::vector<DeviceGrant>();
  } else if (record.action == "job.resume") {
    job.state = State::kPending;
  } else if (record.action == "job.ended") {
    const Afterwards then = ParseAfterwards(TextOf(detail, "outcome")).value_or(job.afterwards);
    job.restarts = CountOf(detail, "restarts", job.restarts + (then == Afterwards::kRetries ? 1 : 0));
    if (detail.contains("resumes")) job.resumes = IsSaid(detail, "resumes");
    Settle(job, then);
  } else if (const std::optional<Afterwards> then = conf::ValueOf(kJobEndActions, record.action)) {
    job.afterwards = *then;
    if (job.holds()) {
      job.state = State::kDraining;
    } else if (*then == Afterwards::kCancels || *then == Afterwards::kSuspends) {
      Settle(job, *then);
    }
  }
}

void WorkloadHistory::Settle(PastJob& job, Afterwards then) {
  job.state = State::kStopped;
  job.outcome = Outcome::kNone;
  switch (then) {
    case Afterwards::kSleeps:  // of replicas alone
    case Afterwards::kResizes:
    case Afterwards::kWaits:
    case Afterwards::kRetries:
      job.state = State::kPending;
      return;
    case Afterwards::kSuspends:
      job.outcome = Outcome::kSuspended;
      return;
    case Afterwards::kEnds:
      job.outcome = Outcome::kDone;
      return;
    case Afterwards::kFails:
      job.outcome = Outcome::kFailed;
      return;
    case Afterwards::kCancels:
      job.outcome = Outcome::kCancelled;
      return;
  }
}

// --- Rebuilding ---

class WorkloadHistory::Rebuilding {
 public:
  Rebuilding(const WorkloadHistory& history, const Found& found)
      : history_(history), found_(found), submissions_(history.submissions_), jobs_(history.jobs_) {
    ReadStored();
    ReadRuns();
  }

  Rebuilt Run() && {
    for (const auto& [id, past] : jobs_) RebuildJob(id, past);
    for (const auto& [id, members] : replica_runs_) RebuildReplica(id, members);
    std::ranges::sort(over_, {}, &Workload::since);
    const size_t most = std::min(over_.size(), Jobs::kKeptOver);
    std::move(over_.end() - static_cast<ptrdiff_t>(most), over_.end(), std::back_inserter(workloads_));
    out_.over = most;
    std::map<std::string, const Submission*> named;
    for (const Workload& workload : workloads_) {
      if (workload.of) named[workload.of->id] = workload.of.get();
      out_.writes.push_back(
          store::Write::Create(store::kWorkload, workload.id, BodyOf(workload, history_.cluster_)));
    }
    for (const auto& [id, submission] : named)
      out_.writes.push_back(store::Write::Create(store::kSubmission, id, BodyOf(*submission)));
    if (last_number_ > 0) {
      out_.writes.push_back(
          store::Write::Create(store::kSubmission, kLastSubmission, BodyOfLast(last_number_)));
    }
    return std::move(out_);
  }

 private:
  using ByRank = std::map<uint32_t, const RunStatus*>;

  // Each object by itself: a damaged one does not affect the others.
  void ReadStored() {
    last_number_ = history_.last_number_;
    std::map<std::string, const store::Object*> files;
    for (const store::Object& object : found_.stored) {
      if (object.kind != store::kSubmission) continue;
      const auto read = ReadWorkloads({}, {object}, history_.cluster_);
      if (!read.ok()) continue;
      last_number_ = std::max(last_number_, read->last_number);
      if (object.id != kLastSubmission) files[object.id] = &object;
    }
    for (const store::Object& object : found_.stored) {
      if (object.kind != store::kWorkload) continue;
      const json body = conf::ParseJson(object.body);
      if (!body.is_object()) continue;
      std::vector<store::Object> file;
      if (const auto of = files.find(TextOf(body, "of")); of != files.end()) file.push_back(*of->second);
      auto read = ReadWorkloads({object}, file, history_.cluster_);
      if (!read.ok()) continue;
      Workload& workload = read->workloads.front();
      if (workload.of) {
        submissions_.try_emplace(workload.of->id, workload.of);
        if (!jobs_.contains(workload.id)) jobs_[workload.id] = PastOf(workload);
      }
      stored_.emplace(workload.id, std::move(workload));
    }
  }

  static PastJob PastOf(const Workload& job) {
    PastJob past;
    past.of = job.of->id;
    past.element = job.element;
    past.state = job.ends() ? State::kDraining : job.holds() ? State::kRunning : job.state;
    past.outcome = job.outcome;
    past.afterwards = job.afterwards;
    past.attempt = job.attempt;
    past.members = static_cast<uint32_t>(job.members.size());
    past.restarts = job.restarts;
    past.resumes = job.resumes;
    past.since = job.since;
    past.started = job.started;
    past.why = job.why;
    past.actor = job.actor;
    return past;
  }

  void ReadRuns() {
    std::map<std::string_view, const RunStatus*> replicas;
    for (const RunStatus& run : found_.runs) {
      if (const std::optional<JobRun> of = ParseJobRun(run.id)) {
        job_runs_[of->job][of->attempt][of->rank] = &run;
        last_number_ = std::max(last_number_, NumberOf(of->job));
        if (!jobs_.contains(of->job)) jobs_[of->job].of = of->job;
      } else if (IsReplicaRun(run.id)) {
        replicas[run.id] = &run;
      }
    }
    for (const auto& [id, run] : replicas) {
      const size_t dash = id.rfind('-');
      const auto leader = replicas.find(id.substr(0, dash));
      const auto rank = conf::ReadNumber<uint32_t>(id.substr(dash + 1));
      if (leader != replicas.end() && rank) {
        replica_runs_[std::string(leader->first)][*rank] = run;
      } else {
        replica_runs_[std::string(id)][0] = run;
      }
    }
  }

  Member MemberOf(const RunStatus& run, uint32_t rank, const std::vector<DeviceGrant>& places) const {
    Member member;
    member.run = run.id;
    member.at.rank = rank;
    member.at.holding.node = scheduler::kNone;
    const bool known = !run.grant.node.empty() || rank >= places.size();
    if (const auto holding = HoldingOf(history_.cluster_, known ? run.grant : places[rank]))
      member.at.holding = *holding;
    member.log = run.log;
    member.began = run.started;
    if (run.state != RunState::kEnded) return member;
    member.ended = true;
    member.gone = run.ended;
    member.exit_code = run.exit_code;
    member.signal = run.signal;
    member.why = run.why;
    return member;
  }

  // The runs of one attempt; a member without a run has ended.
  std::vector<Member> MembersOf(const Workload& job, uint32_t attempt, uint32_t least,
                                const std::vector<DeviceGrant>& places) const {
    std::vector<Member> members;
    const auto attempts = job_runs_.find(job.id);
    if (attempts == job_runs_.end() || !attempts->second.contains(attempt)) return members;
    const ByRank& runs = attempts->second.at(attempt);
    Workload of;
    of.id = job.id;
    of.attempt = attempt;
    const uint32_t count = std::max(runs.rbegin()->first + 1, least);
    for (uint32_t rank = 0; rank < count; ++rank) {
      if (const auto run = runs.find(rank); run != runs.end()) {
        members.push_back(MemberOf(*run->second, rank, places));
        continue;
      }
      Member& gone = members.emplace_back();
      gone.run = RunId(of, rank);
      gone.at.rank = rank;
      gone.at.holding.node = scheduler::kNone;
      gone.ended = true;
      gone.why = "it was gone when the state was rebuilt";
    }
    return members;
  }

  void RebuildJob(const std::string& id, PastJob past) {
    const auto attempts = job_runs_.find(id);
    const uint32_t latest = attempts == job_runs_.end() ? 0 : attempts->second.rbegin()->first;
    if (latest > past.attempt) {  // started, but not in the ledger
      past.attempt = latest;
      past.state = State::kRunning;
      past.members = 0;
      past.places.clear();
    }
    if (past.holds() && latest < past.attempt) {
      // All its runs are gone, and it is not known how they ended.
      const bool wanted = past.state == State::kRunning;
      Settle(past, wanted ? Afterwards::kRetries : past.afterwards);
      past.why = "its runs were gone when the state was rebuilt";
    }
    if (const auto stored = stored_.find(id); stored != stored_.end() && Agrees(stored->second, past))
      return Keep(std::move(stored->second));

    Workload job;
    job.id = id;
    job.of = FileOf(id, past);
    if (!job.of) {
      if (!past.holds() && past.outcome <= Outcome::kSuspended) out_.lost.push_back(id);
      for (const auto& [attempt, runs] : attempts == job_runs_.end() ? Attempts() : attempts->second) {
        for (const auto& [rank, run] : runs) out_.left.push_back(run->id);
      }
      return;
    }
    job.element = past.element;
    job.state = past.state;
    job.outcome = past.outcome;
    job.afterwards = past.afterwards;
    job.since = past.since;
    job.wanted = job.of->at;
    job.started = past.started;
    job.why = past.why;
    job.actor = past.actor.empty() ? "control" : past.actor;
    job.attempt = past.attempt;
    job.restarts = past.restarts;
    job.resumes = past.resumes;
    job.members = MembersOf(job, past.attempt, past.members, past.places);
    if (past.attempt > 0) job.before = MembersOf(job, past.attempt - 1, 0, {});
    for (const Member& member : job.members) {
      if (member.began && job.started == conf::TimePoint()) job.started = *member.began;
    }
    Keep(std::move(job));
  }

  bool Agrees(const Workload& stored, const PastJob& past) const {
    if (stored.attempt != past.attempt || stored.holds() != past.holds()) return false;
    if (!past.holds()) return stored.state == past.state && stored.outcome == past.outcome;
    const auto runs = job_runs_.find(stored.id);
    return runs != job_runs_.end() && stored.ends() == (past.state == State::kDraining);
  }

  void Keep(Workload job) {
    if (job.over()) return over_.push_back(std::move(job));
    (job.holds() ? out_.running : out_.waiting).push_back(job.id);
    workloads_.push_back(std::move(job));
  }

  std::shared_ptr<const Submission> FileOf(const std::string& id, const PastJob& past) {
    if (const auto known = submissions_.find(past.of); known != submissions_.end()) return known->second;
    // An element whose submission is no longer in the ledger.
    if (const auto known = submissions_.find(id.substr(0, id.rfind('.'))); known != submissions_.end())
      return known->second;
    if (!past.holds()) return nullptr;
    std::shared_ptr<const Submission> made = FileFromRuns(id, past);
    if (made) out_.without_file.push_back(id);
    return made;
  }

  // A job file with only what its runs were given; it prevents another start.
  std::shared_ptr<const Submission> FileFromRuns(const std::string& id, const PastJob& past) const {
    const ByRank& runs = job_runs_.at(id).at(past.attempt);
    const RunStatus& run = *runs.begin()->second;
    const auto record = found_.record_of(run.id);
    if (!record.ok()) return nullptr;
    json file = {{"name", id.substr(0, id.rfind('-'))}, {"command", record->command}, {"restarts", 0}};
    if (!record->directory.empty()) file["directory"] = record->directory;
    if (!record->tenant.empty()) file["tenant"] = record->tenant;
    const uint32_t members = std::max(past.members, runs.rbegin()->first + 1);
    if (members > 1) file["members"] = members;
    if (!run.grant.kind.empty())
      file["devices"] = {{{"kind", run.grant.kind}, {"count", run.grant.devices.size()}}};
    auto submission = std::make_shared<Submission>();
    submission->text = file.dump(2, ' ', false, json::error_handler_t::replace);
    auto loaded = config::ReadJobFile(submission->text, "rebuilt", config::ReferencesOnly());
    if (!loaded.value) return nullptr;
    submission->id = id;
    submission->number = NumberOf(id);
    submission->file = *std::move(loaded.value);
    submission->file.job.tenant = record->tenant;
    submission->user = past.actor.empty() ? "control" : past.actor;
    submission->at = run.started.value_or(run.since);
    return submission;
  }

  void RebuildReplica(const std::string& id, const ByRank& runs) {
    const auto leave = [&] {
      for (const auto& [rank, run] : runs) {
        if (run->state != RunState::kEnded) out_.left.push_back(run->id);
      }
    };
    const RunStatus& leader = *runs.begin()->second;
    const auto told = history_.replicas_.find(id);
    const PastReplica past = told == history_.replicas_.end() ? PastReplica() : told->second;
    const std::string model = leader.owner.empty() ? past.model : leader.owner;
    if (model.empty() || leader.state == RunState::kEnded || runs.rbegin()->first + 1 != runs.size())
      return leave();
    Workload replica;
    if (const auto stored = stored_.find(id);
        stored != stored_.end() && stored->second.members.size() == runs.size() && stored->second.holds()) {
      replica = std::move(stored->second);
    } else {
      replica.id = id;
      replica.kind = Kind::kReplica;
      replica.model = model;
      replica.model_version = past.version;
      replica.state = past.ends ? State::kDraining : State::kStarting;
      replica.afterwards = Afterwards::kEnds;
      replica.since = replica.wanted = replica.started = leader.started.value_or(leader.since);
      replica.why = "it was running when the state was rebuilt";
      replica.actor = "control";
      replica.attempt = 1;
      for (const auto& [rank, run] : runs) replica.members.push_back(MemberOf(*run, rank, past.places));
      const absl::StatusOr<plugins::launchers::RunRecord> record = found_.record_of(leader.id);
      replica.keyed =
          record.ok() && std::ranges::count(record->env_names, plugins::engines::kReplicaKeyVariable) > 0;
    }
    out_.replicas.push_back(id);
    workloads_.push_back(std::move(replica));
  }

  using Attempts = std::map<uint32_t, ByRank>;

  const WorkloadHistory& history_;
  const Found& found_;
  std::map<std::string, std::shared_ptr<const Submission>> submissions_;
  Pasts jobs_;
  std::map<std::string, Workload> stored_;
  std::map<std::string, Attempts> job_runs_;
  std::map<std::string, ByRank> replica_runs_;  // by the leader's
  uint64_t last_number_ = 0;
  std::vector<Workload> workloads_;
  std::vector<Workload> over_;
  Rebuilt out_;
};

WorkloadHistory::Rebuilt WorkloadHistory::Rebuild(const Found& found) const {
  return Rebuilding(*this, found).Run();
}

}  // namespace gateway::control
