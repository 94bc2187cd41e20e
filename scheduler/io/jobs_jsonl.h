// Jobs as lines of JSON, one job a line: what `tidegate simulate jobs` reads and what tools write.
//
//   {"id":"train-7","queue":"research","submitted":"2026-11-20T08:30:00Z","roles":[{"count":8,
//    "devices":[{"kinds":["h100"],"count":8}]}],"estimate":"6h","run":"340m"}
//
// Fields are those of work.h; `run` is how long the job really runs, which a simulation needs. Empty lines
// and lines that begin with # are passed over. A line that is wrong (no JSON, a key or word that does not
// exist, a job that could not be on any cluster, an id given before) is left out and reported.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/io/loaded.h"
#include "scheduler/work.h"

namespace scheduler::io {

struct TimedJob {
  Job job{};
  std::optional<conf::Duration> run{};  // at full size, without restarts; absent: until the end
  int line = 0;                         // in the file that it was read from; 0: not from a file
};

// The problem of the job itself, whatever the cluster; empty: none. For readers of any format.
std::string FirstDefect(const Job& job);

struct Jobs {
  std::vector<TimedJob> jobs;
  LineReport report;
};
Jobs ReadJobs(std::string_view text, const std::string& file);

// One line, with its newline.
void WriteJob(const TimedJob& job, std::string& out);

}  // namespace scheduler::io
