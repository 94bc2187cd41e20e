// Work for a cluster: jobs, what each of their members needs, and how they may be started, stopped and moved.
//
// Plain values. A job is any work: a training gang, an inference model's replicas, a batch or array job, a
// notebook. Members of one job are alike within a role. Units as in model.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "scheduler/holding.h"

namespace scheduler {

// One way to satisfy a member's need for devices.
struct DeviceAsk {
  std::vector<std::string> kinds{};  // any of these; empty: any kind
  uint16_t count = 0;                // whole devices
  uint16_t milli = 0;                // or a share of one device, below 1000
  std::string profile{};             // or a partition ("1g.10gb")
  int64_t memory_mib = 0;            // that each device, or the share, must have
};

struct LabelRule {
  std::string key{};
  std::vector<std::string> values{};  // any of these
};

// So many of a countable resource of the cluster, such as licences.
struct ResourceAsk {
  std::string name{};
  uint32_t count = 1;
};

// The request of one member; all of it must fit on one node.
struct Ask {
  std::vector<DeviceAsk> devices{};  // in order of preference; empty: none
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  std::vector<LabelRule> require{};  // every rule must hold (residency, zone)
  std::vector<LabelRule> avoid{};    // none may hold
  std::vector<LabelRule> prefer{};   // each that holds counts (data locality, weights on disk)
  Isolation isolation = Isolation::kNone;
};

struct Role {
  std::string name{};  // "worker"
  Ask ask{};
  uint32_t count = 1;      // members wanted
  uint32_t min_count = 1;  // below which the job cannot run; lower than `count`: elastic
};

enum class WorkClass : uint8_t { kTraining, kInference, kBatch, kArray, kNotebook };

struct Topology {
  std::string level{};    // a fabric level's name, or "node"; empty: anywhere
  bool required = false;  // else preferred: the lowest level that holds it
  conf::Duration wait{};  // preferred: from its submission, how long it waits for the level
};

struct Checkpoint {
  conf::Duration interval{};  // 0: no checkpoints, so a stop loses all work
  conf::Duration save{};      // how long one holds the work up; on demand, within the grace
  conf::Duration restart{};   // from start to doing useful work again
};

// Identity is `id`, unique in a snapshot.
struct Job {
  std::string id{};
  std::string queue{};  // the name of a leaf of the queue tree
  std::string user{};
  std::string tenant{};
  std::string application{};  // what it runs: its run time is learned from earlier jobs that run the same
  WorkClass work = WorkClass::kTraining;
  int32_t priority = 0;  // higher goes first
  std::vector<Role> roles{};
  Topology topology{};
  bool spread = false;  // over failure domains: its members and its array's, where there is a choice
  std::string
      spread_over{};  // a label of nodes, before leaves and nodes; "node": nodes alone; empty: leaves, then nodes
  bool anti_affinity = false;  // no two members on one node
  bool preemptible = true;
  std::vector<WorkClass> never_preempts{};  // classes that it never stops, whatever its priority
  Checkpoint checkpoint{};
  conf::TimePoint submitted{};
  std::optional<conf::Duration> estimate{};     // of its run time, by the user or learned
  std::optional<conf::Duration> limit{};        // it is stopped then
  std::optional<conf::TimePoint> not_before{};  // an advance reservation's start
  std::vector<std::string> after{};             // ids of jobs that must have ended well
  std::string array{};                          // the array or study that it is an element of
  uint32_t max_running = 0;                     // of its array, elements at a time; 0: all
  conf::Duration idle_timeout{};                // notebooks: suspended when idle for so long; 0: never
  uint32_t restart_budget = 3;                  // faults survived before the job fails
  std::vector<ResourceAsk> resources{};  // held by the job as a whole, from its start until it has stopped
  // Its processes are there already and can work with these devices alone (a replica that slept): it starts
  // with just these members, all of them, or waits. Empty: anywhere.
  std::vector<MemberAt> pinned{};
};

conf::Words<WorkClass> WordsOf(WorkClass);
std::string_view Name(WorkClass work);
conf::Words<Isolation> WordsOf(Isolation);
std::string_view Name(Isolation isolation);

// Devices that a job holds when all its members run, in milli. For alternatives, of the first.
int64_t DeviceMilli(const DeviceAsk& ask);
int64_t DeviceMilli(const Job& job);
uint32_t Members(const Job& job);  // wanted
uint32_t MinMembers(const Job& job);

}  // namespace scheduler
