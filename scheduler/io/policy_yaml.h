// A policy file: how the planner decides and the queues that share the cluster, as in conf/policies/.
//
// Every field of policy.h and queue.h has its own name in the file; durations have a unit, quotas are numbers of
// devices. Missing options have their defaults. Names are checked against the lists of placements and order terms, and
// the queues must form a tree; with a cluster, its device kinds and zones are checked, too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/document.h"
#include "conf/reader.h"
#include "scheduler/io/loaded.h"
#include "scheduler/policy.h"
#include "scheduler/queue.h"

namespace scheduler {

struct Cluster;

// For sections of other files that have the same options.
void Bind(conf::Object& object, MovesPolicy& moves);

namespace io {

struct PolicyFile {
  Policy policy{};
  std::vector<Queue> queues{};
};

// `cluster` may be null: names of its device kinds and domains are then not checked.
Loaded<PolicyFile> ReadPolicy(std::string_view text, const std::string& file,
                              const Cluster* cluster = nullptr);

// The effective policy, defaults included, as JSON that reads back as the same.
std::string WritePolicy(const PolicyFile& policy);

// Reports problems of the queues under /queues: names, parents, cycles, quotas that cannot hold.
void CheckQueues(conf::Document& document, const std::vector<Queue>& queues, const Cluster* cluster);

}  // namespace io
}  // namespace scheduler
