// A job file, as in conf/jobs/*.yaml: work that Tidegate runs beside inference (a training gang, a batch or
// array job, a notebook): the devices that it needs, and how its members are started, saved and ended.
//
// Plain value. CheckJob checks it against a cluster.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "conf/secret.h"
#include "conf/sources.h"
#include "conf/time.h"
#include "gateway/config/placing.h"
#include "gateway/config/pods.h"
#include "gateway/config/sweep.h"
#include "scheduler/io/loaded.h"
#include "scheduler/model.h"
#include "scheduler/queue.h"
#include "scheduler/work.h"

namespace gateway::config {

// How members save their work before they make room.
struct JobCheckpoint {
  bool given = false;
  int signal = 0;                                   // to each member's first process
  conf::Duration grace = std::chrono::seconds(60);  // until they are ended, saved or not
  std::string saved;                // a file that is written when all is saved; empty: members end by then
  std::vector<std::string> resume;  // the command from the second start on; empty: the same
};

// In commands, "{node}" and "{id}" are replaced; of a sweep also "{sweep.NAME}", with data also "{data.NAME}".
struct JobFile {
  std::string file;
  std::string name;
  std::string image;  // of its pods, with Kubernetes
  PodPiece pod;       // likewise
  std::vector<std::string> command;
  std::map<std::string, std::string> env;
  std::map<std::string, conf::Secret> secret_env;
  std::string directory;  // where members run; empty: the launcher's own
  JobCheckpoint checkpoint;
  conf::Duration start_timeout = std::chrono::minutes(2);  // within which all members must run
  conf::Duration stop_grace = std::chrono::seconds(10);    // between SIGTERM and SIGKILL
  uint32_t elements = 0;                                   // of an array or a sweep; 0: it is none
  std::optional<Sweep> sweep;
  std::optional<uint64_t> seed;   // that members are given; absent: one is made from the job's id
  std::vector<std::string> data;  // names of scaling.data_sets
  Placing placing;                // in `job` already
  std::string activity;           // of a notebook: the file whose change is its use; empty: its output

  // The request to the planner; its id, user and time come with the submission.
  scheduler::Job job;
};

// For callers that only read a job file: its secrets stay unresolved references.
const conf::Sources& ReferencesOnly();

// Secrets are looked up in `sources`. `parameters`: the text of the file that the job's sweep names.
scheduler::io::Loaded<JobFile> ReadJobFile(std::string_view text, const std::string& file,
                                           const conf::Sources& sources, std::string_view parameters = {});

// The name of the file of parameters that the job's sweep names; empty: none, or the file cannot be read.
std::string ParameterFileOf(std::string_view text);

// The parameters of an element; empty: it is none of a sweep.
const ParameterSet& ParametersOf(const JobFile& job, uint32_t element);

// What a job that becomes pods gives wrongly: no image, a signal that cannot be sent, a share of a device, or a
// piece of a tenant's that could reach what belongs to others.
struct PodDefect {
  std::string pointer;
  std::string why;
};
std::vector<PodDefect> FindPodDefects(const JobFile& job, const Pods& pods);

// Names in the job that the cluster does not have: queue, kinds of devices, level of the fabric, labels, resources.
std::vector<conf::Problem> CheckJob(const JobFile& job, const scheduler::Cluster& cluster,
                                    const std::vector<scheduler::Queue>& queues);

}  // namespace gateway::config
