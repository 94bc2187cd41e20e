// The report of a simulation: the source of tables, JSON, CSV and pages.
//
// Hours are counted from the first submission. GPU-hours count devices of any kind, fractions as fractions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/metrics.h"

namespace scheduler::sim {

// The state at the end of an hour (or of a longer step, for long traces), and of the hour up to it.
struct Sample {
  double hour = 0;
  double gar = 0;              // allocated / healthy devices, at the moment
  double sor = 0;              // of the device time of the step, what jobs held
  double gfr = 0;              // nodes partly taken / nodes, at the moment
  double fragmentation = 0;    // FGD's share under the workload's own mix; at the moment
  uint32_t running = 0;        // jobs
  uint32_t waiting = 0;        // jobs that could start, if there were room
  double waiting_devices = 0;  // that those want
  double kilowatts = 0;
  bool saturated = false;  // some job waited all through the step
};

struct WaitsOfClass {
  uint32_t jobs = 0;  // that started
  double mean_h = 0;
  double p50_h = 0;
  double p90_h = 0;
  double p99_h = 0;
  double max_h = 0;
  std::vector<double> cdf_h{};  // waits at equal steps of probability, from 0 to 1
};

// A start, or a move, of a job with more than one member.
struct GangPlaced {
  double hour = 0;
  double devices = 0;
  double jtted = 1;
};

struct QueueUse {
  std::string name{};
  double device_hours = 0;       // held
  double satisfaction = 0;       // held part of its entitlement
  std::vector<float> devices{};  // held, at each sample
};

// How full nodes are over time. Rows are nodes in the cluster's order, or groups of neighbours; columns are
// equal spans of time. Cells are 0 to 1, column after column.
struct HeatMap {
  size_t rows = 0;
  size_t nodes_per_row = 1;
  double hours_per_column = 1;
  std::vector<float> cells{};
};

struct Report {
  std::string name{};  // of the policy, for tables
  uint64_t seed = 0;

  // Counts.
  uint32_t submitted = 0;
  uint32_t started = 0;   // at least once
  uint32_t finished = 0;  // ended well
  uint32_t failed = 0;    // over their limit or restart budget
  uint32_t unfinished = 0;
  uint32_t preemptions = 0;
  uint32_t moves = 0;
  uint32_t faults = 0;       // of nodes
  uint32_t quarantined = 0;  // nodes, that failed too often
  uint32_t restarts = 0;     // of jobs, after a fault
  uint64_t cycles = 0;
  double hours = 0;  // simulated
  double saturated_hours = 0;

  // Medians of the samples at saturation; of all samples, where `saturated_hours` is 0.
  double gar = 0;
  double sor = 0;
  double gfr = 0;
  double fragmentation = 0;
  // Over the whole time.
  double gar_mean = 0;
  double sor_mean = 0;

  // Waiting times of jobs.
  WaitsOfClass waits{};  // all
  std::array<WaitsOfClass, kSizeClasses> waits_by_size{};
  WaitsOfClass waits_of_large{};  // 8 devices and more
  double jct_mean_h = 0;          // from submission to end, of those that ended well
  double jct_p50_h = 0;
  double jct_p99_h = 0;
  double slowdown_mean = 0;  // bounded
  double slowdown_p50 = 0;
  double jtted_p50 = 0;  // of starts of jobs with more than one member
  double jtted_mean = 0;
  double jtted_p99 = 0;
  double node_deviation = 0;  // means of the same starts
  double leaf_deviation = 0;

  // GPU-hours that were held, and what became of them.
  double useful_h = 0;
  double lost_h = 0;       // work that a stop threw away
  double restarted_h = 0;  // loading, restoring and saving on demand
  double saved_h = 0;      // periodic checkpoints
  double idle_h = 0;       // notebooks without a user
  double open_h = 0;       // of jobs that had not ended
  double goodput = 1;      // useful, of all of these but open
  double energy_kwh = 0;
  double jain = 0;  // of the queues' satisfaction

  std::vector<Sample> samples{};
  std::vector<GangPlaced> gangs{};  // in order of time
  std::vector<QueueUse> queues{};
  HeatMap heat{};
};

// The simulated cluster, trace and policy.
struct RunFacts {
  std::string trace{};
  size_t rows = 0;
  size_t left_out = 0;
  size_t nodes = 0;
  size_t devices = 0;
  std::string estimates{};
  std::string what_if{};  // changes to the files' system; empty: none
};

struct PolicyRuns {
  std::string name{};
  std::vector<Report> reports{};  // one for each seed, at least one
};

// The one list of figures: keys of JSON and CSV, titles and units of tables.
struct Metric {
  std::string_view key;
  std::string_view title;
  std::string_view unit;
  int digits;  // after the point, in tables
  double (*of)(const Report&);
  size_t (*over)(const Report&) = nullptr;  // the jobs that it is about; 0: it has no value
};
std::span<const Metric> Metrics();

// Spread of a metric over the seeds that have a value of it.
struct Spread {
  size_t seeds = 0;
  double mean = 0;
  double deviation = 0;  // of a sample; 0 for one
};
Spread Over(std::span<const Report> reports, const Metric& metric);
// "1.50", over several seeds "1.50 ± 0.10"; "-": no seed has a value.
std::string InTable(const Spread& spread, const Metric& metric);

}  // namespace scheduler::sim
