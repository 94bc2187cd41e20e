// RunHistory: how long a job is expected to run, learned from the jobs that have ended.
//
// A class of jobs (learned_runs.h) lies in wider ones, the widest first:
//
//   work and stated time ⊃ + size ⊃ user, any size ⊃ + size ⊃ + application
//
// The expectation of a class is the mean of its runs, where the expectation of the next wider class counts as
// kPriorRuns further runs. So a class with few runs is expected to run like the wider one, and a class with many like
// its own runs. The widest class begins with what the job states, or `unknown` where it states nothing. The spread, one
// standard deviation of a single run, is learned in the same way and begins as large as the expectation.
//
// Each run has kKeep of the weight of the next one; a run counts as kLongestRun at most. Bounded: with more than
// kMostClasses classes, all counts are halved, and those below half a run are forgotten. state() returns everything as
// plain values; a history made from them continues in the same way. Pure. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "conf/time.h"
#include "scheduler/learned_runs.h"
#include "scheduler/model.h"

namespace scheduler {

struct RunEstimate {
  conf::Duration expected{};
  conf::Duration spread{};
  RunClass of{};    // the narrowest class that has runs
  double runs = 0;  // of that class, older ones less; 0: nothing was learned
};

class RunHistory {
 public:
  static constexpr conf::Duration kLongestRun = std::chrono::hours(24 * 7);
  static constexpr double kPriorRuns = 3;
  static constexpr double kKeep = 0.998;
  static constexpr size_t kMostClasses = 4096;

  // Where a class and the wider ones are found, as long as no class is added or forgotten.
  struct Chain {
    static constexpr size_t kLevels = 5;
    uint64_t layout = 0;
    std::array<uint32_t, kLevels> at{};  // the widest first; kNone: no run was seen
  };

  explicit RunHistory(conf::Duration unknown) : unknown_(unknown) {}
  RunHistory(const LearnedRuns& known, conf::Duration unknown);

  // Absent for inference: a replica ends when it is told to.
  static std::optional<RunClass> ClassOf(const Job& job);

  void Add(const RunClass& of, conf::Duration run);

  // `chain`: any, which is brought up to date and makes the next call fast.
  double ExpectedSeconds(const RunClass& of, Chain& chain) const;
  RunEstimate Estimate(const RunClass& of) const;

  LearnedRuns state() const;

 private:
  using Levels = std::array<std::optional<RunClass>, Chain::kLevels>;

  static Levels LevelsOf(const RunClass& of);
  double FirstGuess(const RunClass& of) const;  // seconds
  void Forget();

  conf::Duration unknown_;
  std::map<RunClass, uint32_t> index_;
  std::vector<RunSums> sums_;  // by index
  uint64_t layout_ = 1;
};

}  // namespace scheduler
