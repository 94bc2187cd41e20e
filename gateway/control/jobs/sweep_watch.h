// SweepWatch: reads the reports of sweeps' elements about their progress, and stops the elements that fall behind.
//
// An element's leader appends lines of JSON, {"step": 100, "value": 0.31}, to a file of its own; TIDEGATE_METRICS has
// its path. The file is not trusted: no part of its path may be a link, it must be a regular file without other hard
// links that belongs to the user of the run, and each round reads at most kMostRead bytes of it.
//
// Owner: Jobs. Thread: the control loop's; files are read on another thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/control/workloads/workloads.h"
#include "scheduler/halving.h"

namespace gateway::control {

// The path of an element's file; empty: its job has no metric.
std::string MetricFileOf(const Workload& job);

// One report of an element.
struct Report {
  uint64_t step = 0;
  double value = 0;
};

// The reports in the text's whole lines, and the length of these lines in bytes. Other lines are skipped. Pure.
struct Reports {
  std::vector<Report> all{};
  size_t bytes = 0;
};
Reports ParseReports(std::string_view text);

// New reports of an element: its last and best value, and its value at each rung that it has newly reached. Pure.
struct NewRungs {
  size_t first = 0;
  std::vector<double> values{};
};
NewRungs Take(SweepProgress& progress, const std::vector<Report>& reports, const config::Sweep& sweep);

// "Its last report: loss 0.31 at step 100, the best 0.3."; empty: the job is no element of a sweep that reports.
std::string SweepInWords(const Workload& job);

class SweepWatch {
 public:
  using OffLoop = std::function<net::Task<absl::Status>(std::function<absl::Status()>)>;
  static constexpr size_t kMostRead = 256U << 10;  // bytes of one file, in one round
  static constexpr size_t kMostFiles = 256;        // in one round

  // `run_user`: the user of runs whose launcher does not say it; empty: this process's.
  SweepWatch(const Context& context, Workloads& workloads, OffLoop off_loop,
             std::function<std::string()> run_user)
      : context_(context),
        workloads_(workloads),
        off_loop_(std::move(off_loop)),
        run_user_(std::move(run_user)) {}

  // Reads the files that are due.
  void Tick();
  void Close() { closing_ = true; }
  size_t under_way() const { return under_way_; }

 private:
  struct Watched {
    std::string job{};
    std::string path{};
    std::string user{};  // the file must belong to it; empty: the user of this process
    uint64_t from = 0;
    uint64_t file_id = 0;
    // The result of the read.
    absl::Status status{};
    std::string text{};
    bool anew = false;  // the file was replaced or cut: it is read from its start
  };
  static void Read(Watched& one);
  net::Task<void> ReadFiles(std::vector<Watched> watched);
  // True: the element's progress has changed, and is to be stored.
  bool OnRead(const Watched& read);
  scheduler::Halving& HalvingOf(const Workload& job);

  const Context& context_;
  Workloads& workloads_;
  const OffLoop off_loop_;
  const std::function<std::string()> run_user_;
  std::map<std::string, scheduler::Halving> halvings_;  // by submission, while elements of it run
  std::map<std::string, conf::TimePoint> last_read_;    // by element
  conf::TimePoint next_{};
  size_t under_way_ = 0;
  bool reading_ = false;
  bool closing_ = false;
};

}  // namespace gateway::control
