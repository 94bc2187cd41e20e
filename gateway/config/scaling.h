// Section `scaling`: the models whose replicas Tidegate starts and stops itself, their policies, their
// devices and the launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/device_power.h"
#include "gateway/config/machine_probe.h"
#include "gateway/config/model_policy.h"
#include "gateway/config/pods.h"
#include "gateway/config/runs.h"
#include "gateway/config/slurm.h"
#include "gateway/config/weights.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/model.h"

namespace conf {
class Object;
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

enum class LauncherKind : uint8_t { kProcess, kSlurm, kKubernetes };
std::string_view Name(LauncherKind launcher);

// What happens to replicas when the gateway stops.
enum class OnExit : uint8_t { kStop, kKeep };

struct PortRange {
  uint16_t first = 20'000;
  uint16_t last = 29'999;

  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// Whole devices of one kind.
struct DeviceOption {
  std::string kind;
  uint32_t count = 1;
};
void Bind(conf::Object& object, DeviceOption& out);

// The nodes for replicas: those of a file as in conf/clusters, or this machine with the devices that the
// vendors' tools find (`probe`) or that are declared, or none. With Slurm: a file, with its names of the
// nodes. With Kubernetes likewise, or nothing (or `probe`): the nodes that it has.
struct ClusterSource {
  std::string file;
  std::vector<DeviceOption> devices;
  bool probe = false;
};

// Licences and the like, by name, as `{matlab: 10}`.
struct Resources {
  std::vector<scheduler::Resource> all;
};
void Read(const conf::Value& value, Resources& out);
void Write(conf::Writer& writer, const Resources& in);

// What becomes of a share of a device.
enum class Shares : uint8_t { kRefused, kAccounted, kMps };

struct Scaling {
  std::vector<std::string>
      policies;  // files, and folders of files whose names end with .yaml; none: jobs only
  LauncherKind launcher = LauncherKind::kProcess;
  std::optional<Slurm> slurm;      // of that launcher, and with it only
  std::optional<Pods> kubernetes;  // likewise
  ClusterSource cluster;
  std::string planner;  // a file as in conf/policies; empty: its defaults, one queue
  PortRange ports;      // of replicas on each machine
  OnExit on_exit = OnExit::kStop;
  Shares shares = Shares::kRefused;
  Runs runs;
  std::vector<DeviceMetrics> device_metrics;
  Energy energy;
  PowerBudget power;
  std::optional<scheduler::MovesPolicy> moves;  // absent: as the planner's file says
  std::optional<WeightsStore> weights;          // absent: no policy has weights, and no job data
  std::vector<DataSet> data_sets;               // that jobs may name
  Resources resources;                          // that the cluster has, beside those of its file
  std::string device_locks;                     // the folder of plugins/devices/claims.h; empty: its default

  // The contents of those files.
  std::vector<ModelPolicy> models;
  scheduler::Cluster nodes;
  std::optional<plugins::devices::MachineCluster> probed;
  scheduler::io::PolicyFile planning;

  // Null when the model has no policy.
  const ModelPolicy* Find(std::string_view model) const;
};

// The nodes are those that the launcher finds, and `Scaling::nodes` has none.
bool FindsNodes(const Scaling& scaling);

// Why a second gateway of this machine could give out the same devices; empty: it could not.
std::string WhyUnclaimed(const Scaling& scaling);

void Bind(conf::Object& object, Scaling& out);
void Read(const conf::Value& value, PortRange& out);
void Read(const conf::Value& value, ClusterSource& out);
void Write(conf::Writer& writer, const PortRange& in);
void Write(conf::Writer& writer, const ClusterSource& in);

}  // namespace gateway::config
