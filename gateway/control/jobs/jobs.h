// Jobs: the workloads that users submit as job files: training gangs, batch and array jobs, notebooks. A job
// runs when all its members run, saves its work by its checkpoint, and is tried again after a failure.
//
// Owner: the ScalingLoop. Thread: the control loop's. Bounded: at most kMostJobs that have not ended, the
// last kKeptOver that have ended, and kMostText of job files.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conf/problem.h"
#include "conf/sources.h"
#include "gateway/config/weights.h"
#include "gateway/control/jobs/job_log.h"
#include "gateway/control/jobs/save_watch.h"
#include "gateway/control/jobs/sweep_watch.h"
#include "gateway/control/workloads/step_runner.h"
#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

// The result of a submission: the jobs, or every problem of the job file.
struct Submitted {
  std::vector<std::string> jobs{};
  std::string used_up{};  // the budget that keeps the tenant from starting; nothing was submitted
  std::vector<conf::Problem> problems{};
  std::vector<std::string>
      differences{};  // for a job that is run again: what cannot be the same, in sentences
};

// What is submitted.
struct NewJob {
  std::string text{};        // of the job file
  std::string file{};        // its name in problems
  std::string parameters{};  // the text of the file of parameters that its sweep names
  std::string rerun_of{};    // the job whose file is submitted again; empty: none
};

class Jobs final : public WorkloadKind {
 public:
  static constexpr size_t kMostJobs = 10'000;
  static constexpr size_t kKeptOver = 500;
  static constexpr size_t kMostText = 64 << 20;  // bytes of job files, of all jobs together

  // The parts of the process that jobs use.
  struct Environment {
    std::function<net::Task<absl::Status>(std::function<absl::Status()>)> off_loop;
    std::function<std::optional<std::string>(const std::string&)> tenant_path;  // nothing: no such tenant
    // Whether a tenant's jobs may name that secret, as in "env:NAME" or "file:PATH".
    std::function<bool(const std::string& tenant, std::string_view reference)> may_name_secret =
        [](const std::string&, std::string_view) { return false; };
    // The reason why a tenant may start nothing on devices of these kinds now; empty: it may.
    std::function<std::string(const std::string& tenant, std::span<const std::string> kinds)>
        devices_used_up = [](const std::string&, std::span<const std::string>) { return std::string(); };
    // Why nothing may be submitted, since its records would have no room; empty: it may.
    std::function<std::string()> no_room = [] { return std::string(); };
    // Why nothing may start, for want of room or another reason; empty: it may.
    std::function<std::string()> nothing_starts = [] { return std::string(); };
    // The reasons why nodes are not trusted, in sentences.
    std::function<std::vector<std::string>()> doubts = [] { return std::vector<std::string>(); };
    conf::Sources sources{};
    // How jobs become pods; absent: they become processes.
    std::function<std::optional<config::Pods>()> pods = [] { return std::nullopt; };
    // The problem of a request for a share of a device; empty: none.
    std::function<std::string(const scheduler::DeviceAsk&)> why_not_shared = [](const scheduler::DeviceAsk&) {
      return std::string();
    };
    plugins::launchers::LogOwner log_owner = plugins::launchers::LogOwner::kThisProcess;
    // The labels of nodes that jobs of the tenant with that path must keep to.
    std::function<std::vector<scheduler::LabelRule>(const std::string& tenant)> residency =
        [](const std::string&) { return std::vector<scheduler::LabelRule>(); };
    // A data set of the configuration; nothing: there is none of that name.
    std::function<std::optional<config::DataSet>(const std::string& name)> data_set = [](const std::string&) {
      return std::nullopt;
    };
    // The names of all of them.
    std::function<std::vector<std::string>()> data_sets = [] { return std::vector<std::string>(); };
    // The step that brings data sets to a node; nothing: the nodes have no store.
    std::function<std::optional<plugins::launchers::WeightsStep>(const std::vector<config::DataSet>&,
                                                                 const std::string& node)>
        data_step = [](const std::vector<config::DataSet>&, const std::string&) { return std::nullopt; };
    // The user of runs where the launcher does not report it; empty: the user of this process.
    std::function<std::string()> run_user = [] { return std::string(); };
    // The hash of the configuration.
    std::function<std::string()> configuration = [] { return std::string(); };
  };

  Jobs(const Context& context, Workloads& workloads, StepRunner& runner, Environment env);

  // The number of the last submission of any earlier process.
  void SetLastNumber(uint64_t number) { last_number_ = number; }
  // Changes that are due by time alone.
  void Tick();
  void Close() {
    saves_.Close();
    sweeps_.Close();
  }
  size_t under_way() const { return saves_.under_way() + sweeps_.under_way(); }

  // --- Requests of operators; durable when the call returns ---
  net::Task<absl::StatusOr<Submitted>> Submit(NewJob job, std::string actor);
  // `id` names a job, or an array with all its elements.
  net::Task<absl::Status> Cancel(std::string id, std::string actor);
  net::Task<absl::Status> Suspend(std::string id, std::string actor);
  net::Task<absl::Status> Resume(std::string id, std::string actor);
  net::Task<absl::StatusOr<JobLog>> Log(std::string id, WhichLog which);
  // The state of the job and the reason for it, in whole sentences.
  std::vector<std::string> Explain(const Workload& job) const;

  const scheduler::Cluster& cluster() const { return context_.cluster(); }
  std::vector<const Workload*> all() const;  // in the order of submission
  const Workload* Find(const std::string& id) const;
  // By the array's id, without an element's number; empty: there is no such array.
  std::vector<const Workload*> ElementsOf(const std::string& array) const;

  // WorkloadKind
  scheduler::Job AskOf(const Workload& job) const override;
  bool MayBePlaced(Workload& job) override;
  absl::StatusOr<plugins::launchers::RunSpec> SpecOf(const Workload& job, uint32_t rank) const override;
  void OnMembersUp(Workload& job) override;
  bool EndsByItself() const override { return true; }
  bool Saves(const Workload& job, Afterwards then) const override;
  int SaveSignal(const Workload& job) const override { return job.file().checkpoint.signal; }
  void OnSaved(Workload& job, conf::TimePoint at) override { saves_.SavedNow(job, at); }
  conf::Duration StopGrace(const Workload& job) const override { return job.file().stop_grace; }
  bool GivesUpSilentMembers() const override { return true; }
  void Fail(Workload& job, std::string why, Blame blame) override;
  void OnStopped(Workload&) override {}
  bool KeepsRuns() const override { return true; }
  std::string ActionOf(const Workload& job) const override;
  std::string EndOf(const Workload&) const override { return "job.ended"; }
  std::string DetailOf(const Workload& job, bool ended) const override;

 private:
  // The state of the jobs that a name in `after` stands for: one job, or all elements of an array.
  enum class Precursor : uint8_t { kOpen, kDone, kFailed };

  Workload* Get(const std::string& id);
  net::Task<absl::Status> Record(ledger::Event event);
  void CancelNow(Workload& job, const std::string& actor);
  net::Task<absl::Status> CancelArray(std::string id, std::string actor);
  bool ArrayIsFull(const Workload& job) const;
  void Tick(Workload& job, conf::TimePoint now);
  void DropOver();

  // Problems with the cluster, the tenants and other jobs; fills in the defaults.
  std::vector<conf::Problem> Check(config::JobFile& job) const;
  using Wrong = std::function<void(std::string pointer, const std::string& value, std::string message)>;
  void CheckResidency(const config::JobFile& job, const Wrong& wrong) const;
  void CheckData(const config::JobFile& job, const Wrong& wrong) const;
  void CheckFits(const config::JobFile& job, const std::vector<scheduler::Queue>& queues,
                 const Wrong& wrong) const;
  // The job's data sets, as the configuration has them now. FailedPrecondition: the configuration no longer has one,
  // or it is not for the tenant.
  absl::StatusOr<std::vector<config::DataSet>> DataOf(const config::JobFile& job) const;
  absl::Status HasRoomFor(size_t count, size_t bytes) const;
  std::vector<Workload> JobsOf(const std::shared_ptr<const Submission>& submission) const;
  void TakeOver(Submission& submission, const std::string& rerun_of, Submitted& out) const;
  net::Task<absl::Status> SaveNew(const Submission& submission, const std::vector<Workload>& made);

  Precursor PrecursorOf(const std::string& name) const;
  std::vector<std::string> Awaits(const Workload& job) const;
  void CheckHeld();
  // The user of the job's runs if it starts now. Unavailable: other tenants use every user.
  absl::StatusOr<std::string> UserOf(const config::JobFile& file) const;
  std::string UsedUp(const config::JobFile& file) const;
  // Why the job may not start now, whatever devices are free; empty: it may.
  std::string WhyWithheld(const config::JobFile& file) const;
  void CheckBudgets();

  const Context& context_;
  Workloads& workloads_;
  StepRunner& runner_;
  const Environment env_;
  SaveWatch saves_;
  SweepWatch sweeps_;
  uint64_t last_number_ = 0;
  size_t coming_ = 0;  // jobs that are being submitted, and the size of their files
  size_t coming_bytes_ = 0;
  conf::TimePoint next_budgets_{};
  std::optional<uint64_t> ended_{};  // ended workloads, when dependencies were last checked
};

}  // namespace gateway::control
