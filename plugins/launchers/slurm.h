// SlurmLauncher: runs as batch jobs of Slurm, through slurmrestd.
//
// Each run is one job on the node that it was given, with devices by GRES; Slurm chooses which of the node's
// devices those are (CUDA_VISIBLE_DEVICES in the job's environment). Jobs are found again by name and mark,
// so a restart loses nothing, and a submission whose answer was lost is not made twice. Where logs are kept,
// the batch script writes the run's end beside them (slurm/results.h).
//
// A list of all jobs is asked for every `poll` (a quarter of it while something starts or stops), nodes every
// few seconds; while Slurm or slurmrestd is away, less and less often, and what was known stays. Signals
// reach every process of a run: slurmrestd offers nothing else.
//
// Thread: the loop's. Construct, Open() once, and Close() before destruction.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gateway/net/abort_group.h"
#include "gateway/net/backoff.h"
#include "gateway/net/loop.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/slurm/client.h"
#include "plugins/launchers/slurm/cluster.h"
#include "plugins/launchers/slurm/runs.h"

namespace plugins::launchers {

class SlurmLauncher final : public Launcher {
 public:
  struct Options {
    slurm::Client::Options server{};
    std::string
        state{};  // names this gateway's runs; it belongs to the state directory, which outlives the process
    std::string partition{};
    std::string account{};  // this and the next: empty, the user's default
    std::string qos{};
    PortRange ports{21'000, 21'999};
    std::vector<std::string> gres{"gpu"};  // names of the GRES that are devices
    // Devices of others' jobs in these count as free: Slurm requeues those jobs for ours.
    std::vector<std::string> preemptible_partitions{};
    std::vector<std::string> preemptible_qos{};
    std::string directory{};  // of runs that name none
    std::string logs{};       // folder of runs' output and results on the nodes; empty: neither is kept
    conf::Duration poll = std::chrono::seconds(1);
    uint64_t seed = 0;
  };

  SlurmLauncher(gateway::net::Loop& loop, Options options);
  ~SlurmLauncher() override;

  void Open();

  std::string_view name() const override { return "slurm"; }
  gateway::net::Task<absl::Status> Start(RunSpec spec) override;
  gateway::net::Task<absl::Status> Stop(std::string id, conf::Duration grace) override;
  gateway::net::Task<absl::Status> Signal(std::string id, int signal) override;
  gateway::net::Task<absl::StatusOr<std::vector<RunStatus>>> List() override;
  gateway::net::Task<absl::Status> Forget(std::string id) override;
  gateway::net::Task<void> Close() override;
  std::string AddressOf(const std::string& id, const std::string& node) const override;
  std::string NodeAddress(const std::string& node) const override;

  // Connects to the node's slurmd and closes at once; slurmd logs that.
  gateway::net::Task<absl::Status> AskNode(std::string node) override;
  const SharedCluster* shared() const override { return listed_ ? &shared_ : nullptr; }
  // The planner's view of the cluster, with the holders of its devices.
  slurm::View view() const;

  // OK, or why the known state is old.
  const absl::Status& health() const { return health_; }

 private:
  gateway::net::Task<void> Watch();
  gateway::net::Task<absl::Status> Refresh();
  gateway::net::Task<absl::Status> RefreshJobs(bool all);  // also if nothing has changed
  gateway::net::Task<absl::Status> RefreshNodes();
  gateway::net::Task<void> ReadResults();
  gateway::net::Task<void> Kill(std::vector<uint32_t> jobs);
  absl::StatusOr<slurm::Submission> Compose(const RunSpec& spec, const slurm::Node& node) const;
  absl::Status Failed(const absl::Status& why);
  const slurm::Node* NodeOf(const std::string& name) const;
  std::string LogOf(const std::string& id) const;
  void Share();

  gateway::net::Loop& loop_;
  const Options options_;
  slurm::Client client_;
  gateway::net::AbortGroup asked_;  // connections to nodes
  slurm::Runs runs_;
  std::vector<slurm::Node> nodes_;
  std::map<std::string, std::string> addresses_;
  std::vector<slurm::Job> jobs_;
  absl::Status health_ = absl::UnavailableError("Slurm has not been asked yet");
  SharedCluster shared_;

  bool listed_ = false;
  bool recalled_ = false;       // results of runs that ended before this gateway started
  std::set<std::string> read_;  // ended runs whose results were looked for
  int64_t latest_ = 0;          // JobList::latest, and since when
  conf::TimePoint latest_since_{};
  conf::TimePoint all_at_{};  // when all jobs were last asked for
  bool settled_ = false;      // no list can say more of what happened until `latest_`
  std::set<std::string> changed_;
  conf::TimePoint jobs_at_{};
  conf::TimePoint nodes_at_{};

  gateway::net::Backoff backoff_;
  gateway::net::Sleep sleep_;
  gateway::net::Event stopped_;
  bool open_ = false;
  bool closed_ = false;
};

}  // namespace plugins::launchers
