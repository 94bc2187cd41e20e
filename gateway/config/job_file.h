// A job file, as in conf/jobs/*.yaml: work that Tidegate runs beside inference, a training gang, a batch or
// array job, a notebook: what it asks of the cluster, and how its members are started, saved and ended.
//
// Plain value. Whether the cluster has what is asked for is checked apart (CheckJob), where a cluster is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "conf/secret.h"
#include "conf/sources.h"
#include "conf/time.h"
#include "scheduler/io/loaded.h"
#include "scheduler/model.h"
#include "scheduler/queue.h"
#include "scheduler/work.h"

namespace gateway::config {

// How members save their work when they are to make way.
struct JobCheckpoint {
  bool given = false;
  int signal = 0;                                   // to each member's first process
  conf::Duration grace = std::chrono::seconds(60);  // until they are ended, saved or not
  std::string saved;  // a file that is written anew when all is saved; empty: members end by then
  std::vector<std::string> resume;  // what is run from the second start on; empty: the command
};

// In commands, "{node}" and "{id}" stand for what they name.
struct JobFile {
  std::string file;
  std::string name;
  std::vector<std::string> command;
  std::map<std::string, std::string> env;
  std::map<std::string, conf::Secret> secret_env;
  std::string directory;  // where members run; empty: the launcher's own
  JobCheckpoint checkpoint;
  conf::Duration start_timeout = std::chrono::minutes(2);  // within which all members must run
  conf::Duration stop_grace = std::chrono::seconds(10);    // between SIGTERM and SIGKILL
  uint32_t elements = 0;                                   // of an array; 0: it is none
  std::string activity;  // of a notebook: the file whose change is its use; empty: its output

  // What the planner is asked for; its id, user and time of submission are the submission's.
  scheduler::Job job;
};

// For whoever only looks at a job file: its secrets stay references, whether they lead somewhere or not.
const conf::Sources& ReferencesOnly();

// Secrets are looked up in `sources`.
scheduler::io::Loaded<JobFile> ReadJobFile(std::string_view text, const std::string& file,
                                           const conf::Sources& sources);

// What the cluster does not have of what the job names: its queue, kinds of devices, level of the fabric.
std::vector<conf::Problem> CheckJob(const JobFile& job, const scheduler::Cluster& cluster,
                                    const std::vector<scheduler::Queue>& queues);

}  // namespace gateway::config
