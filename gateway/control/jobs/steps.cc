// What is done about a job's state, one step at a time: it is kept, recorded, and then asked of the launcher.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/control/grant.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/control/jobs/run_spec.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

using nlohmann::ordered_json;
using plugins::launchers::RunSpec;

constexpr conf::Duration kRetry = std::chrono::seconds(1);
constexpr conf::Duration kElsewhere = std::chrono::seconds(2);  // a start whose node does not answer
constexpr size_t kMaxSteps = 256;                               // under way at once
constexpr size_t kMembersInDetail = 64;                         // of a record

std::string_view ActionOf(const Job& job) {
  if (job.state == JobState::kStarting) return "job.start";
  switch (job.afterwards) {
    case Afterwards::kResizes:
      return "job.resize";
    case Afterwards::kWaits:
      return "job.preempt";
    case Afterwards::kRetries:
      return "job.retry";
    case Afterwards::kSuspends:
      return "job.suspend";
    case Afterwards::kEnds:
    case Afterwards::kFails:
      return "job.stop";
    case Afterwards::kCancels:
      return "job.cancel";
  }
  return "job.stop";
}

std::string DetailOf(const Job& job, const scheduler::Cluster& cluster, conf::TimePoint now, bool ended) {
  ordered_json detail = {{"reason", job.why}, {"attempt", job.attempt}, {"members", job.members.size()}};
  if (job.state == JobState::kStarting) detail["resumes"] = job.resumes;
  if (job.state == JobState::kSaving) detail["saves"] = true;
  ordered_json places = ordered_json::array();
  std::map<std::string, uint64_t> held;
  for (const JobMember& member : job.members) {
    const plugins::launchers::Grant grant = member.at.holding.node < cluster.nodes.size()
                                                ? GrantOf(cluster, member.at.holding)
                                                : plugins::launchers::Grant();
    if (!grant.kind.empty()) held[grant.kind] += grant.devices.size() * grant.milli;
    if (places.size() < kMembersInDetail)
      places.push_back({{"node", grant.node}, {"kind", grant.kind}, {"devices", grant.devices}});
  }
  if (!ended) {
    detail["places"] = std::move(places);
  } else {
    const double seconds = conf::ToSeconds(now - job.started);
    detail["seconds"] = seconds;
    ordered_json device_seconds = ordered_json::object();
    for (const auto& [kind, milli] : held) device_seconds[kind] = static_cast<double>(milli) * 1e-3 * seconds;
    detail["device_seconds"] = std::move(device_seconds);
    detail["outcome"] = Name(job.afterwards);
  }
  return detail.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

bool Jobs::NeedsStep(const Job& job, conf::TimePoint now) const {
  if (job.busy || now < job.next_step) return false;
  if (!job.saved) return true;
  switch (job.state) {
    case JobState::kStarting:
      return !job.recorded || !std::ranges::all_of(job.members, [](const JobMember& m) { return m.started; });
    case JobState::kSaving:
      return !job.recorded || std::ranges::any_of(job.members, [](const JobMember& m) {
        return m.started && !m.ended && !m.told;
      });
    case JobState::kStopping:
      return job.all_ended() || std::ranges::any_of(job.members, [](const JobMember& m) {
               return !m.ended && (!m.told || !m.asked);
             });
    default:
      return false;
  }
}

void Jobs::TakeSteps() {
  if (closing_) return;
  const conf::TimePoint now = around_.now();
  std::vector<std::string> due;
  for (const Job& job : jobs_) {
    if (due.size() + under_way_ >= kMaxSteps) break;
    if (NeedsStep(job, now)) due.push_back(job.id);
  }
  for (std::string& id : due) around_.spawn(Step(std::move(id)));
  if (!to_forget_.empty() && !forgetting_) around_.spawn(ForgetRuns());
}

net::Task<void> Jobs::Step(std::string id) {
  Get(id)->busy = true;
  ++under_way_;
  co_await Act(id);
  --under_way_;
  if (Job* const job = Get(id)) job->busy = false;
  if (!closing_) around_.wake();
}

net::Task<void> Jobs::Act(std::string id) {
  if (!Get(id)->saved) {
    const uint64_t version = Get(id)->version;
    const absl::Status kept = co_await Save(id);
    if (!kept.ok()) {
      log::Error("jobs cannot be written down, and nothing is done; it is tried again",
                 {{"job", id}, {"why", conf::Std(kept.message())}});
      Get(id)->next_step = around_.now() + kRetry;
      co_return;
    }
    if (Get(id)->version != version) co_return;
  }
  switch (Get(id)->state) {
    case JobState::kStarting:
      co_return co_await Launch(id);
    case JobState::kSaving:
      co_return co_await TellToSave(id);
    case JobState::kStopping:
      co_return co_await TellToEnd(id);
    default:
      co_return;
  }
}

// False: it could not be recorded, or something else is wanted of the job by now.
net::Task<bool> Jobs::Record(std::string id, std::string action) {
  const Job& job = *Get(id);
  const uint64_t version = job.version;
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = job.actor;
  event.subject = id;
  event.tenant = job.file().job.tenant;
  event.detail = DetailOf(job, *around_.cluster, around_.now(), action == "job.ended");
  const absl::Status recorded = co_await around_.record(std::move(event));
  Job* const now = Get(id);
  if (now == nullptr || now->version != version) co_return false;
  if (!recorded.ok()) {
    log::Error("action not recorded, and not taken; it is tried again",
               {{"job", id}, {"action", action}, {"why", conf::Std(recorded.message())}});
    now->next_step = around_.now() + kRetry;
  }
  co_return recorded.ok();
}

net::Task<void> Jobs::Launch(std::string id) {
  if (!Get(id)->recorded) {
    if (!co_await Record(id, "job.start")) co_return;
    Get(id)->recorded = true;
  }
  const uint64_t version = Get(id)->version;
  const scheduler::Cluster& cluster = *around_.cluster;
  const bool here = around_.launcher->name() == "process";
  const Meeting meeting{here ? "127.0.0.1" : cluster.nodes[Get(id)->members.front().at.holding.node].name,
                        MeetingPort(id, Get(id)->attempt)};
  for (uint32_t rank = 0; rank < Get(id)->members.size(); ++rank) {
    if (Get(id)->members[rank].started) continue;
    absl::StatusOr<RunSpec> spec = SpecOf(*Get(id), rank, meeting, cluster, around_.sources);
    if (!spec.ok())
      co_return End(*Get(id), Afterwards::kFails, std::string(conf::Std(spec.status().message())));
    const absl::Status may = co_await around_.may_start_on(spec->grant.node);
    if (Get(id)->version != version) co_return;
    if (!may.ok()) {
      Job& job = *Get(id);
      job.members[rank].why = conf::Std(may.message());
      job.next_step = around_.now() + kRetry;
      if (around_.now() - job.since < kElsewhere) co_return;
      job.blameless = true;
      co_return End(job, Afterwards::kRetries, std::string(conf::Std(may.message())));
    }
    Get(id)->members[rank].asked = true;
    const absl::Status started = co_await around_.launcher->Start(*std::move(spec));
    Job& job = *Get(id);
    const bool same = job.version == version;
    // Of another attempt by now: it waits for this step before it begins, so the members are the same.
    JobMember& member = job.members[rank];
    member.started = started.ok();
    if (!same) co_return;
    if (started.ok()) continue;
    member.why = conf::Std(started.message());
    if (!absl::IsUnavailable(started)) {
      co_return End(job, Afterwards::kFails,
                    fmt::format("member {} cannot be started: {}", rank, member.why));
    }
    job.next_step = around_.now() + kRetry;
    co_return;
  }
}

net::Task<void> Jobs::TellToSave(std::string id) {
  if (!Get(id)->recorded) {
    if (!co_await Record(id, std::string(ActionOf(*Get(id))))) co_return;
    Get(id)->recorded = true;
  }
  const int signal = Get(id)->file().checkpoint.signal;
  for (size_t rank = 0; rank < Get(id)->members.size() && Get(id)->state == JobState::kSaving; ++rank) {
    JobMember& member = Get(id)->members[rank];
    if (!member.started || member.ended || member.told) continue;
    member.told = true;
    const std::string run = member.run;
    const absl::Status told = co_await around_.launcher->Signal(run, signal);
    if (told.ok() || absl::IsNotFound(told)) continue;
    log::Warn("member not told to save", {{"job", id}, {"run", run}, {"why", conf::Std(told.message())}});
  }
}

net::Task<void> Jobs::TellToEnd(std::string id) {
  const bool by_itself = Get(id)->afterwards == Afterwards::kEnds;
  if (!Get(id)->recorded && !by_itself) {
    if (!co_await Record(id, std::string(ActionOf(*Get(id))))) co_return;
    Get(id)->recorded = true;
  }
  for (size_t rank = 0; rank < Get(id)->members.size(); ++rank) {
    JobMember& member = Get(id)->members[rank];
    if (!member.asked) member.ended = true;
    if (member.ended || member.told) continue;
    member.told = true;
    const std::string run = member.run;
    const absl::Status told = co_await around_.launcher->Stop(run, Get(id)->file().stop_grace);
    JobMember& after = Get(id)->members[rank];
    if (told.ok()) {
      // What was asked for and refused may be there or not: the launcher knows by now, and ends it if it is.
      if (!after.started) after.started = true;
      continue;
    }
    log::Warn("member not told to end; it is tried again",
              {{"job", id}, {"run", run}, {"why", conf::Std(told.message())}});
    after.told = false;
    Get(id)->next_step = around_.now() + kRetry;
  }
  if (Get(id)->all_ended()) co_await Finish(id);
}

net::Task<void> Jobs::Finish(std::string id) {
  if (!co_await around_.metered(id)) {
    Get(id)->next_step = around_.now() + kRetry;
    co_return;
  }
  if (!co_await Record(id, "job.ended")) co_return;
  Settle(*Get(id));
}

// What was queued up to now is on disk when it returns.
net::Task<absl::Status> Jobs::Persist(std::string lines) {
  unwritten_ += lines;
  const uint64_t mine = ++queued_;
  if (!co_await writes_.Take()) co_return absl::ResourceExhaustedError("too many wait for the disk");
  absl::Status written;
  if (written_ < mine) {
    const uint64_t covers = queued_;
    std::string batch = std::exchange(unwritten_, {});
    std::string anew;
    if (journal_.overgrown()) {
      KnownJobs known{.last_number = last_number_, .jobs = {jobs_.begin(), jobs_.end()}};
      anew = TextOf(known, *around_.cluster) + batch;  // which may tell of jobs that are not among them yet
    }
    written = co_await around_.off_loop([this, &batch, &anew] {
      if (absl::Status appended = journal_.Append(batch); !appended.ok() || anew.empty()) return appended;
      return journal_.Replace(anew);
    });
    if (written.ok()) {
      written_ = std::max(written_, covers);
    } else {
      unwritten_.insert(0, batch);
    }
  }
  writes_.Give();
  co_return written;
}

net::Task<absl::Status> Jobs::Save(std::string id) {
  const uint64_t version = Get(id)->version;
  const absl::Status kept = co_await Persist(LineOf(*Get(id), *around_.cluster));
  Job* const job = Get(id);
  if (kept.ok() && job != nullptr && job->version == version) job->saved = true;
  co_return kept;
}

net::Task<void> Jobs::ForgetRuns() {
  forgetting_ = true;
  ++under_way_;
  while (!to_forget_.empty() && !closing_) {
    const std::string run = std::move(to_forget_.back());
    to_forget_.pop_back();
    if (const absl::Status forgotten = co_await around_.launcher->Forget(run); !forgotten.ok())
      log::Warn("run not forgotten", {{"run", run}, {"why", conf::Std(forgotten.message())}});
  }
  --under_way_;
  forgetting_ = false;
}

// A run that is a job's by its name, and of which nothing is known: its devices may be given to others.
net::Task<void> Jobs::EndOrphan(std::string run, bool ended) {
  ++under_way_;
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = "job.stop";
  event.actor = "control";
  event.subject = run;
  event.detail = R"({"reason":"nobody knows which job it is of"})";
  if (ended || (co_await around_.record(std::move(event))).ok()) {
    if (!ended) (co_await around_.launcher->Stop(run, kRetry)).IgnoreError();
    (co_await around_.launcher->Forget(run)).IgnoreError();  // refused while it ends: the next look comes by
  }
  orphans_.erase(run);
  --under_way_;
}

}  // namespace gateway::control
