// Runs: the runs that a gateway asked Slurm for, compared with the jobs that Slurm lists. Pure; no request is
// made here.
//
// A job is a run of ours by its mark and user; its name is the run's id. Of several jobs with one name the
// oldest that is not over is the run, and the others must be cancelled. A run that a list does not show any
// more has ended, unless it was submitted after the list was asked for: so each list comes with the stamp
// that was taken before.
//
// Times and exit of a run are slurmctld's, until the run's own result (results.h) is known, which is exact
// and outlives the job in slurmctld's memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/port_range.h"
#include "plugins/launchers/run_result.h"
#include "plugins/launchers/slurm/answers.h"
#include "plugins/launchers/slurm/submission.h"

namespace plugins::launchers::slurm {

class Runs {
 public:
  struct Identity {
    std::string state{};
    std::string user{};
  };
  struct Run {
    RunStatus status{};
    uint32_t job = 0;  // 0: not known to be there
    std::string node{};
    std::optional<RunResult> result{};  // with its end
    bool lost = false;                  // its submission was not answered: it may be there, or come
    bool told_to_stop = false;
    std::optional<conf::TimePoint> kill_at{};  // it was asked to end, and is killed at this time
    uint64_t stamp = 0;                        // of its submission
  };
  struct Outcome {
    std::vector<std::string> changed{};  // runs of which List() says something new
    std::vector<uint32_t> kill{};        // jobs that must not be there
  };

  Runs(Identity identity, PortRange ports) : identity_(std::move(identity)), ports_(ports) {}

  // Taken before a list is asked for.
  uint64_t Stamp() { return ++stamp_; }
  Outcome Apply(const std::vector<Job>& jobs, const std::map<std::string, std::string>& addresses,
                uint64_t stamp, conf::TimePoint now);

  // The result that the run itself has written, also for a run that slurmctld has forgotten or has never shown to this
  // gateway. Only for ended runs. True: List() has changed.
  bool AddResult(const std::string& id, const Mark& mark, const RunResult& result);
  // Ended runs whose results are not known.
  std::vector<std::string> WithoutResult() const;

  const Run* Find(const std::string& id) const;
  std::vector<RunStatus> List() const;  // without their logs
  // Whether something is on its way from one state to another, so that news of it is waited for.
  bool Moving() const;

  // Before it is submitted. The port is free of our own runs on that address; 0 where none is.
  uint16_t PickPort(const std::string& id, const std::string& address) const;
  void Ask(const RunSpec& spec, const std::string& address, uint16_t port, conf::TimePoint now);
  // The outcome of its submission.
  void Submitted(const std::string& id, uint32_t job);
  void Refused(const std::string& id);
  void Lost(const std::string& id);

  // Without a time it has been cancelled outright.
  void ToldToStop(const std::string& id, std::optional<conf::TimePoint> kill_at, conf::TimePoint now);
  // Jobs whose grace is over.
  std::vector<uint32_t> Due(conf::TimePoint now) const;
  void Forget(const std::string& id);

  bool IsOurs(const Job& job) const;

 private:
  bool Update(Run& run, const Job& job, const Mark& mark,
              const std::map<std::string, std::string>& addresses);

  const Identity identity_;
  const PortRange ports_;
  std::map<std::string, Run> runs_;
  std::map<std::string, uint64_t>
      forgotten_;  // runs that Slurm may still show, with the stamp of that moment
  uint64_t stamp_ = 0;
};

// Why a job does not start, or has ended, as a sentence; empty where nothing is wrong.
std::string WhyWaiting(const Job& job);
std::string WhyEnded(const Job& job, bool told_to_stop);

}  // namespace plugins::launchers::slurm
