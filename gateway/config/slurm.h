// Section `scaling.slurm`: the address of slurmrestd, and the user and partition of submitted jobs.
#pragma once

#include <string>
#include <vector>

#include "conf/secret.h"
#include "gateway/config/types.h"

namespace gateway::config {

// Jobs of these partitions and QOS make room for ours: Slurm is set to requeue them (PreemptMode=REQUEUE).
struct Preemptible {
  std::vector<std::string> partitions;
  std::vector<std::string> qos;
};

struct Slurm {
  Url url;  // of slurmrestd: this, or the path of its Unix socket
  std::string socket;
  std::string user;    // the user that submits our jobs
  conf::Secret token;  // of that user; a file: is read again when it is refused
  ClientTls tls;
  std::string name;  // of this gateway's runs; empty: by its machine and state_dir
  std::string partition;
  std::string account;
  std::string qos;
  std::vector<std::string> gres{"gpu"};  // names of what counts as devices
  Preemptible preemptible;
  std::string topology;  // topology.conf as the nodes have it: the fabric of the cluster file's nodes
  std::string directory = "/tmp";  // on the nodes, where runs begin
  std::string logs;                // folder on the nodes; empty: output is not kept
};

void Bind(conf::Object& object, Slurm& out);

}  // namespace gateway::config
