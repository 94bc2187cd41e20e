// A real Slurm, if it is installed: munged, slurmctld, a slurmd for each node and slurmrestd, as the user of
// the test, on free ports of loopback and in its own folder. All nodes are this machine, with GPUs that only
// Slurm believes in.
//
// Everything ends with the object, or with the test process if that is killed: jobs and their processes, too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace tests {

class SlurmCluster {
 public:
  struct Options {
    int nodes = 4;  // node1, node2, ...
    int gpus = 8;   // h100, on each
    int cpus = 64;
    int memory_mib = 512'000;
    // Lines of slurm.conf. Partition `main` is the default; `scavenge` has the same nodes and comes after it.
    std::string more = {};
  };

  // The reason why it cannot run here; empty: it can.
  static std::string WhyNot();

  explicit SlurmCluster(Options options);
  SlurmCluster() : SlurmCluster(Options()) {}
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  // Starts everything and waits until all nodes are idle; otherwise returns the output of the daemons.
  std::string Start();

  uint16_t rest_port() const { return rest_port_; }               // of the slurmrestd that requires a token
  std::string socket() const { return folder_ / "rest.socket"; }  // of the one that trusts the socket
  std::string user() const;                                       // the user of the jobs
  std::string Token() const;
  const std::string& folder() const { return folder_.path(); }

  // The output of one of Slurm's commands, with newlines at its end dropped.
  std::string Run(std::vector<std::string> words) const;
  // Submits a script's text as another user, as far as Tidegate can see; the job's id.
  uint32_t Batch(std::vector<std::string> options, std::string_view script) const;

  // By name: "slurmctld", "node1", "slurmrestd". Stop lets the daemon save its state; Kill is kill -9, which loses what
  // slurmctld has learned in its last seconds. Restart does not wait.
  void Stop(const std::string& daemon);
  void Kill(const std::string& daemon);
  void Restart(const std::string& daemon);
  bool AllIdle() const;

 private:
  void Launch(const std::string& daemon);
  std::vector<std::string> WordsOf(const std::string& daemon) const;
  std::string Conf(const Options& options);
  void StartReaper();
  std::string Output() const;

  const Options options_;
  TempDir folder_;
  uint16_t controller_port_ = 0;
  uint16_t rest_port_ = 0;
  std::map<std::string, std::unique_ptr<ChildProcess>> daemons_;
  int reaper_pipe_ = -1;
  pid_t reaper_ = -1;
};

}  // namespace tests
