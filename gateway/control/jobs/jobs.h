// Jobs: the work that Tidegate runs beside its replicas, from submission to end. Carries out what the planner
// decides of it: gangs start together or not at all, what makes room saves first, what is resized or retried
// starts again.
//
// Decides nothing that is the planner's. Nothing is done before it is in the journal and, with its reason, in
// the ledger; what a process before this one has left running is taken over.
//
// Owner: the control loop, on whose thread everything is called. Bounded: kMostJobs that are not over, and
// the last kKeptOver that are.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conf/sources.h"
#include "gateway/admin/turns.h"
#include "gateway/control/device_meter.h"
#include "gateway/control/jobs/job.h"
#include "gateway/control/jobs/journal.h"
#include "gateway/ledger/record.h"
#include "gateway/net/task.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/planner.h"

namespace gateway::control {

// What jobs see and ask of the loop.
struct JobsAround {
  std::function<conf::TimePoint()> now;
  std::function<scheduler::Planner&()> planner;
  std::function<void()> changed;  // the planner was told something: a cycle is due
  std::function<void()> wake;
  std::function<void(net::Task<void>)> spawn;
  std::function<net::Task<absl::Status>(ledger::Event)> record;  // on disk when it returns
  std::function<net::Task<absl::Status>(std::function<absl::Status()>)> off_loop;
  std::function<std::optional<std::string>(const std::string&)> tenant_path;  // nothing: there is none
  // What the job held up to now is on disk when it returns true.
  std::function<net::Task<bool>(const std::string& job)> metered = [](const std::string&) -> net::Task<bool> {
    co_return true;
  };
  // OK, or Unavailable with the reason why nothing is to be started on a node just now.
  std::function<net::Task<absl::Status>(std::string node)> may_start_on =
      [](std::string) -> net::Task<absl::Status> { co_return absl::OkStatus(); };
  // Nothing can be ended there, nor anything new started.
  std::function<bool(const std::string& node)> untrusted = [](const std::string&) { return false; };
  // What is said against nodes, in sentences.
  std::function<std::vector<std::string>()> doubts = [] { return std::vector<std::string>(); };
  // Why a tenant may start nothing on devices of these kinds now; empty: it may.
  std::function<std::string(const std::string& tenant, std::span<const std::string> kinds)> devices_used_up =
      [](const std::string&, std::span<const std::string>) { return std::string(); };
  plugins::launchers::Launcher* launcher = nullptr;
  const scheduler::Cluster* cluster = nullptr;
  std::vector<scheduler::Queue> queues{};
  conf::Sources sources{};
  std::string file{};  // of the journal
};

// What came of a job file that was handed in: the jobs that it became, or all that is wrong with it.
struct Submitted {
  std::vector<std::string> jobs{};
  std::string used_up{};  // the budget that lets its tenant start nothing now; nothing was handed in
  std::vector<conf::Problem> problems{};
};

struct JobLog {
  std::string text{};
  uint64_t next = 0;  // the byte of the output after it
  bool cut = false;   // there is more before it that was not asked for
};

class Jobs {
 public:
  static constexpr size_t kMostJobs = 10'000;
  static constexpr size_t kKeptOver = 500;
  static constexpr size_t kMostLog = 256 * 1024;  // bytes of an answer

  explicit Jobs(JobsAround around);

  // --- begin.cc ---
  // What the journal says. DataLoss: it is damaged; nothing of it is believed, and nothing may be started.
  net::Task<absl::Status> Open();
  // Compares that with what runs, and has each job that is not over seated. Before the planner's first cycle.
  void TakeOver(const std::vector<plugins::launchers::RunStatus>& runs,
                const std::function<bool(scheduler::JobState)>& seat);

  // --- jobs.cc: what happens ---
  void Apply(const scheduler::Action& action);
  void Unplaced(const std::string& job, std::string why);
  void Observe(const std::vector<plugins::launchers::RunStatus>& runs);
  void Tick();
  // A device is lost, and with it the members that have it: their jobs start again elsewhere.
  void Lose(const plugins::launchers::DeviceFault& fault);

  // --- steps.cc: what is done about it ---
  void TakeSteps();
  size_t under_way() const { return under_way_; }
  void Close() { closing_ = true; }  // no new steps; members run on

  // --- asked.cc: what operators ask for; durable when it returns ---
  net::Task<absl::StatusOr<Submitted>> Submit(std::string text, std::string file, std::string actor);
  net::Task<absl::Status> Cancel(std::string id, std::string actor);
  net::Task<absl::Status> Suspend(std::string id, std::string actor);
  net::Task<absl::Status> Resume(std::string id, std::string actor);
  struct WhichLog {
    uint32_t rank = 0;
    bool before = false;             // of the attempt before
    std::optional<uint64_t> from{};  // a byte; none: its last `bytes`
    size_t bytes = kMostLog;         // at most
  };
  // Of a member's output. What has been made anew since, and is shorter than `from`, is read from its start.
  net::Task<absl::StatusOr<JobLog>> Log(std::string id, WhichLog which);
  // In whole sentences how it stands and why.
  std::vector<std::string> Explain(const Job& job) const;

  // Where members stand that were told to end and have not, for some seconds.
  std::vector<std::string> LateNodes() const;

  // What the members of jobs hold, together for each job and kind of device.
  std::vector<Holding> Held() const;

  const scheduler::Cluster& cluster() const { return *around_.cluster; }
  const std::list<Job>& all() const { return jobs_; }
  const Job* Find(const std::string& id) const;

 private:
  Job* Get(const std::string& id);
  Job& Add(Job job);
  void Enter(Job& job, JobState state, std::string why, std::string actor = "control");
  void End(Job& job, Afterwards then, std::string why, std::string actor = "control");
  void Begin(Job& job, std::vector<scheduler::MemberAt> members, std::string why);
  void Resize(Job& job, std::vector<scheduler::MemberAt> next, const scheduler::Reason& why);
  void Settle(Job& job);
  void Look(Job& job);
  bool IsGivenUp(const Job& job, const JobMember& member) const;
  bool IsLate(const Job& job, const JobMember& member) const;
  std::string NodeOf(const JobMember& member) const;
  void LeavePlanner(const Job& job);
  void AskPlanner(Job& job);
  void LookAtHeld();
  // What has become of those that a name in `after` stands for: a job, or all elements of an array.
  enum class Outcome : uint8_t { kOpen, kDone, kFailed };
  Outcome OutcomeOf(const std::string& name) const;
  std::vector<std::string> Awaits(const Job& job) const;
  std::string UsedUp(const config::JobFile& file) const;
  void LookAtBudgets();
  void DropOver();
  void SavedNow(Job& job, conf::TimePoint at);
  net::Task<void> LookAtFiles();

  bool NeedsStep(const Job& job, conf::TimePoint now) const;
  net::Task<void> Step(std::string id);
  net::Task<void> Act(std::string id);
  net::Task<void> Launch(std::string id);
  net::Task<void> TellToSave(std::string id);
  net::Task<void> TellToEnd(std::string id);
  net::Task<void> Finish(std::string id);
  net::Task<bool> Record(std::string id, std::string action);
  net::Task<absl::Status> Persist(std::string lines);
  net::Task<absl::Status> Save(std::string id);
  net::Task<void> ForgetRuns();
  net::Task<void> EndOrphan(std::string run, bool ended);

  const JobsAround around_;
  JobJournal journal_;
  std::list<Job> jobs_;  // in the order in which they were handed in
  std::map<std::string, std::list<Job>::iterator> by_id_;
  uint64_t last_number_ = 0;
  std::string unwritten_;  // lines
  uint64_t queued_ = 0;    // of those, and what is on disk
  uint64_t written_ = 0;
  admin::Turns writes_;
  std::vector<std::string> to_forget_;  // runs
  std::set<std::string> orphans_;       // being ended
  conf::TimePoint next_files_{};
  conf::TimePoint next_budgets_{};
  size_t under_way_ = 0;
  bool some_ended_ = true;  // jobs, since those that come after others were looked at
  bool looking_ = false;
  bool forgetting_ = false;
  bool closing_ = false;
};

}  // namespace gateway::control
