#include "gateway/config/load_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "conf/text.h"
#include "gateway/config/cut_devices.h"
#include "gateway/config/gang.h"
#include "gateway/config/names.h"
#include "gateway/config/never_fits.h"
#include "gateway/config/pem.h"
#include "gateway/config/shares.h"
#include "plugins/launchers/slurm/topology.h"
#include "scheduler/io/cluster_yaml.h"

namespace gateway::config {
namespace {

constexpr std::string_view kThisMachine = "local";

// Not counted if no file describes the devices.
constexpr int64_t kPlentyCpu = 1'000'000'000;        // milli
constexpr int64_t kPlentyMemory = int64_t{1} << 30;  // MiB

// Every node of a cluster has devices of one kind, so that a machine of several is as many nodes.
scheduler::Cluster MachineOf(const std::vector<DeviceOption>& devices) {
  scheduler::Cluster machine;
  machine.fabric = scheduler::FlatFabric();
  const auto add = [&](const std::string& name, scheduler::NodeType type) {
    type.name = name;
    type.cpu_milli = kPlentyCpu;
    type.memory_mib = kPlentyMemory;
    machine.types.push_back(std::move(type));
    scheduler::Node node;
    node.name = name;
    node.type = static_cast<scheduler::TypeId>(machine.types.size() - 1);
    machine.nodes.push_back(std::move(node));
  };
  if (devices.empty()) add(std::string(kThisMachine), {});
  for (const DeviceOption& option : devices) {
    scheduler::DeviceKind kind;
    kind.name = option.kind;
    machine.kinds.push_back(std::move(kind));
    scheduler::NodeType type;
    type.kind = static_cast<scheduler::KindId>(machine.kinds.size() - 1);
    type.devices = static_cast<uint8_t>(option.count);
    add(devices.size() == 1 ? std::string(kThisMachine) : fmt::format("{}-{}", kThisMachine, option.kind),
        std::move(type));
  }
  return machine;
}

class Loader {
 public:
  Loader(conf::Document& document, Config& config, const MachineProbe& probe,
         std::vector<conf::Problem>& problems)
      : document_(document), config_(config), scaling_(*config.scaling), probe_(probe), problems_(problems) {}

  void Load() {
    LoadCluster();
    LoadResources();
    LoadPowerBudget();
    LoadPlanner();
    for (size_t i = 0; i < scaling_.policies.size(); ++i) LoadPolicies(i);
    for (const ModelPolicy& policy : scaling_.models) Check(policy);
  }

  bool complete() const { return complete_; }

 private:
  std::optional<std::string> Contents(const std::string& pointer, const std::string& path) {
    absl::StatusOr<std::string> text = document_.sources().file(path);
    if (text.ok()) return *std::move(text);
    document_.AddAt(pointer, path, conf::Std(text.status().message()));
    complete_ = false;
    return std::nullopt;
  }

  void Take(std::vector<conf::Problem> found) {
    complete_ = complete_ && found.empty();
    problems_.insert(problems_.end(), std::make_move_iterator(found.begin()),
                     std::make_move_iterator(found.end()));
  }

  void LoadCluster() {
    if (FindsNodes(scaling_)) {
      scaling_.nodes.fabric = scheduler::FlatFabric();
      return;
    }
    if (scaling_.cluster.probe) return ProbeCluster();
    if (scaling_.cluster.file.empty()) {
      scaling_.nodes = MachineOf(scaling_.cluster.devices);
      return;
    }
    const auto text = Contents("/scaling/cluster", scaling_.cluster.file);
    if (!text) return;
    auto loaded = scheduler::io::ReadCluster(*text, scaling_.cluster.file);
    Take(std::move(loaded.problems));
    if (loaded.value) scaling_.nodes = *std::move(loaded.value);
    if (loaded.value && scaling_.slurm && !scaling_.slurm->topology.empty()) LoadTopology();
  }

  void LoadResources() {
    std::vector<scheduler::Resource>& known = scaling_.nodes.resources;
    for (const scheduler::Resource& resource : scaling_.resources.all) {
      if (std::ranges::find(known, resource.name, &scheduler::Resource::name) != known.end()) {
        complete_ = false;
        document_.AddAt("/scaling/resources/" + resource.name, resource.name,
                        fmt::format("is a resource of the cluster file {}, too; keep one of the two",
                                    scaling_.cluster.file));
        continue;
      }
      known.push_back(resource);
    }
  }

  // Where the launcher finds the nodes, domains may come later.
  void LoadPowerBudget() {
    for (const std::string& name : ApplyPowerBudget(scaling_.power, scaling_.nodes)) {
      if (FindsNodes(scaling_) || !complete_) continue;
      std::vector<std::string_view> known;
      for (const scheduler::Domain& domain : scaling_.nodes.fabric.domains) known.push_back(domain.name);
      document_.AddAt(
          "/scaling/power/domain_watts", name,
          fmt::format("unknown domain \"{}\"; the cluster's fabric has {}", name, fmt::join(known, ", ")));
    }
  }

  void LoadTopology() {
    constexpr std::string_view kPointer = "/scaling/slurm/topology";
    const std::string& path = scaling_.slurm->topology;
    const auto text = Contents(std::string(kPointer), path);
    if (!text) return;
    const auto wrong = [&](std::string_view message) {
      complete_ = false;
      document_.AddAt(std::string(kPointer), path, message);
    };
    const auto switches = plugins::launchers::slurm::ReadTopology(*text);
    if (!switches.ok()) return wrong(conf::Std(switches.status().message()));
    if (scaling_.nodes.fabric.domains.size() > 1) {
      return wrong(fmt::format("{} describes a fabric too; remove one of the two", scaling_.cluster.file));
    }
    plugins::launchers::slurm::ApplyTopology(*switches, scaling_.nodes);
    const auto is_under_a_switch = [&](const scheduler::Node& node) {
      return scaling_.nodes.fabric.domains[node.domain].parent != scheduler::kNone;
    };
    if (std::ranges::none_of(scaling_.nodes.nodes, is_under_a_switch))
      wrong(fmt::format("names none of the nodes of {}", scaling_.cluster.file));
  }

  void ProbeCluster() {
    absl::StatusOr<plugins::devices::MachineCluster> machine = probe_();
    if (!machine.ok()) {
      complete_ = false;
      document_.AddAt("/scaling/cluster", "probe", conf::Std(machine.status().message()));
      return;
    }
    scaling_.nodes = machine->cluster;
    scaling_.probed = *std::move(machine);
  }

  void LoadPlanner() {
    scaling_.planning.queues = {{.name = "default", .parent = ""}};
    if (scaling_.moves) scaling_.planning.policy.moves = *scaling_.moves;
    if (scaling_.planner.empty()) return;
    const auto text = Contents("/scaling/planner", scaling_.planner);
    if (!text) return;
    auto loaded = scheduler::io::ReadPolicy(*text, scaling_.planner,
                                            scaling_.nodes.nodes.empty() ? nullptr : &scaling_.nodes);
    Take(std::move(loaded.problems));
    if (!loaded.value) return;
    const scheduler::MovesPolicy& moves = scaling_.moves.value_or(loaded.value->policy.moves);
    if (loaded.value->policy.defragment.enabled && moves.per_hour == 0) {
      complete_ = false;
      document_.AddAt(
          "/scaling/planner", scaling_.planner,
          "has defragment.enabled: true, but moves.per_hour is 0, so that nothing may move; give the "
          "number of moves that an hour may have, or set enabled to false");
    }
    if (loaded.value->queues.empty()) loaded.value->queues = scaling_.planning.queues;
    scaling_.planning = *std::move(loaded.value);
    if (scaling_.moves) scaling_.planning.policy.moves = *scaling_.moves;
  }

  void LoadPolicies(size_t i) {
    const bool listed = document_.Nearest("/scaling/policies").kind() == conf::Kind::kSequence;
    const std::string pointer = listed ? fmt::format("/scaling/policies/{}", i) : "/scaling/policies";
    const std::string& path = scaling_.policies[i];
    if (path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".json"))
      return LoadPolicy(pointer, path);
    absl::StatusOr<std::vector<std::string>> files = document_.sources().folder(path);
    if (!files.ok()) {
      complete_ = false;
      document_.AddAt(pointer, path, conf::Std(files.status().message()));
      return;
    }
    std::ranges::sort(*files);
    bool any = false;
    for (const std::string& file : *files) {
      if (!file.ends_with(".yaml")) continue;
      any = true;
      LoadPolicy(pointer, fmt::format("{}{}{}", path, path.ends_with('/') ? "" : "/", file));
    }
    if (!any) document_.AddAt(pointer, path, "has no file whose name ends with .yaml");
  }

  void LoadPolicy(const std::string& pointer, const std::string& path) {
    const auto text = Contents(pointer, path);
    if (!text) return;
    auto loaded = ReadModelPolicy(*text, path, document_.sources());
    Take(std::move(loaded.problems));
    if (!loaded.value) return;
    const auto [first, added] = owners_.try_emplace(loaded.value->model(), path);
    if (!added) {
      Wrong(*loaded.value, "/model", loaded.value->model(),
            fmt::format("{} already has the policy {}; keep one of the two", loaded.value->model(),
                        first->second));
      return;
    }
    scaling_.models.push_back(*std::move(loaded.value));
  }

  void Check(const ModelPolicy& policy) {
    const Names models = ModelNames(config_.models);
    const auto model = std::ranges::find(config_.models, policy.model(), &Model::name);
    if (model == config_.models.end()) {
      if (models.complete()) {
        Wrong(policy, "/model", policy.model(),
              fmt::format("unknown model \"{}\"{}", policy.model(), models.Hint(policy.model())));
      }
    } else if (model->lora) {
      Wrong(policy, "/model", policy.model(),
            fmt::format("is an adapter, which the replicas of {} serve; remove this policy, the base's "
                        "policy covers both",
                        model->lora->base));
    } else if (model->disaggregation) {
      Wrong(
          policy, "/model", policy.model(),
          "has endpoints with roles, which scaling policies do not support; remove the roles or the policy");
    } else if (!model->queue.enabled) {
      Wrong(policy, "/model", policy.model(),
            "has no queue in which requests could wait for replicas; remove queue.enabled: false");
    }
    if (!policy.replica && !policy.scale) {
      Wrong(policy, "/replica", "",
            "is required; it says how a replica is started, where no scale names an object of Kubernetes");
    }
    if (policy.scale && model != config_.models.end() && !model->lora && !DiscoversEndpoints(*model)) {
      Wrong(policy, "/scale", policy.scale->name,
            fmt::format("needs a way by which the replicas come to {}: give it an endpoint with kubernetes: "
                        "{{service: …}}, or with dns",
                        policy.model()));
    }
    if (policy.rollout && model != config_.models.end() && !model->routing.canaries.empty()) {
      Wrong(policy, "/rollout/version", policy.rollout->version,
            fmt::format(
                "cannot be combined with routing.canaries of {}, which also divide its requests; remove "
                "one of the two",
                policy.model()));
    }
    CheckTarget(policy);
    CheckPod(policy);
    if (policy.weights && !scaling_.weights) {
      Wrong(policy, "/weights", policy.weights->digest,
            "need a store on the nodes; give scaling.weights.store in the configuration");
    }
    if (policy.scaling.sleep && scaling_.launcher != LauncherKind::kProcess) {
      Wrong(
          policy, "/idle/sleep_after", "",
          fmt::format("has no effect with launcher: {}, whose {} keep their devices; give "
                      "scale_to_zero_after instead",
                      Name(scaling_.launcher), scaling_.launcher == LauncherKind::kSlurm ? "jobs" : "pods"));
    }
    for (size_t i = 0; i < policy.placement.devices.size(); ++i) {
      const scheduler::DeviceAsk& ask = policy.placement.devices[i].ask;
      if (scaling_.slurm && (ask.milli > 0 || !ask.profile.empty())) {
        Wrong(policy, fmt::format("/placement/devices/{}", i), "",
              "asks for part of a device, which Slurm cannot give; ask for whole devices by count");
      }
      if (std::string why = WhyNotShared(ask, scaling_); !why.empty())
        Wrong(policy, fmt::format("/placement/devices/{}", i), "", std::move(why));
      if (std::string cut = AsksForCut(ask, UncutKinds(scaling_)); !cut.empty())
        Wrong(policy, fmt::format("/placement/devices/{}", i), ask.kinds.front(), std::move(cut));
      const std::vector<std::string>& asked = ask.kinds;
      const std::string kind = asked.empty() ? "" : asked.front();
      const auto& kinds = scaling_.nodes.kinds;
      if (scaling_.nodes.nodes.empty() || (kind.empty() && !kinds.empty()) ||
          std::ranges::find(kinds, kind, &scheduler::DeviceKind::name) != kinds.end())
        continue;
      std::vector<std::string_view> names;
      names.reserve(kinds.size());
      for (const scheduler::DeviceKind& known : kinds) names.push_back(known.name);
      Wrong(policy, fmt::format("/placement/devices/{}/kind", i), kind,
            names.empty()
                ? fmt::format("the cluster has no devices; describe them under scaling.cluster")
                : fmt::format("unknown kind \"{}\"; expected one of {}", kind, fmt::join(names, ", ")));
    }
    for (PlacingDefect& defect : CheckPlacing(policy.placement.placing, scaling_.nodes)) {
      Wrong(policy, "/placement" + defect.pointer, std::move(defect.value), std::move(defect.message));
    }
    if (policy.replica && policy.replica->tls) CheckTls(policy, *policy.replica->tls);
    CheckQueue(policy);
    CheckMembers(policy);
  }

  void CheckPod(const ModelPolicy& policy) {
    if (!policy.replica) return;
    const bool pods = scaling_.launcher == LauncherKind::kKubernetes;
    if (pods && policy.replica->image.empty())
      Wrong(policy, "/replica/image", "", "is required with launcher: kubernetes, which runs it in a pod");
    if (!pods && !policy.replica->image.empty())
      Wrong(policy, "/replica/image", policy.replica->image, "has an effect only with launcher: kubernetes");
    if (!pods && !policy.replica->pod.empty())
      Wrong(policy, "/replica/pod", "", "has an effect only with launcher: kubernetes");
    for (size_t i = 0; pods && i < policy.placement.devices.size(); ++i) {
      if (policy.placement.devices[i].ask.milli > 0) {
        Wrong(
            policy, fmt::format("/placement/devices/{}", i), "",
            "asks for a share of a device, which Kubernetes cannot give; ask for whole devices by count, or "
            "for a profile");
      }
    }
  }

  // Two policies that write one number would undo each other's work.
  void CheckTarget(const ModelPolicy& policy) {
    if (!policy.scale) return;
    for (const ModelPolicy& other : scaling_.models) {
      if (&other >= &policy) break;
      if (!other.scale || other.scale->kind != policy.scale->kind ||
          other.scale->name != policy.scale->name || other.scale->name_space != policy.scale->name_space)
        continue;
      Wrong(policy, "/scale", policy.scale->name,
            fmt::format("is scaled by the policy {} already; keep one of the two", other.file));
    }
  }

  void CheckTls(const ModelPolicy& policy, const ClientTls& tls) {
    const auto check = [&](std::string_view key, const std::string& path,
                           std::string (*wrong)(std::string_view)) {
      if (path.empty()) return;
      const std::string pointer = fmt::format("/replica/tls/{}", key);
      absl::StatusOr<std::string> text = document_.sources().file(path);
      if (!text.ok()) return Wrong(policy, pointer, path, std::string(conf::Std(text.status().message())));
      std::string problem = wrong(*text);
      conf::Wipe(*text);
      if (!problem.empty()) Wrong(policy, pointer, path, fmt::format("the file \"{}\" {}", path, problem));
    };
    check("ca", tls.ca, WrongCertificate);
    check("certificate", tls.certificate, WrongCertificate);
    check("key", tls.key, WrongPrivateKey);
  }

  // A replica of one member may wait for a larger node. One of several is spread over what is described, and
  // never starts where that cannot hold all of them; nor does one whose nodes are chosen by labels.
  void CheckMembers(const ModelPolicy& policy) {
    const Placement& placement = policy.placement;
    const bool chooses = !placement.placing.require.rules.empty() || !placement.placing.avoid.rules.empty();
    if ((placement.members == 1 && !chooses) || scaling_.nodes.nodes.empty() || !complete_) return;
    const std::string& level = placement.topology.level;
    const std::vector<std::string_view> levels = LevelsOf(scaling_.nodes);
    if (!level.empty() && std::ranges::find(levels, level) == levels.end()) {
      return Wrong(policy, "/placement/topology/level", level,
                   fmt::format("unknown level \"{}\"; expected one of {}", level, fmt::join(levels, ", ")));
    }
    scheduler::Job job = AskOf(policy);
    AskForUncut(job.roles.front().ask, UncutKinds(scaling_));
    if (const auto never = FindNeverFits(scaling_.nodes, scaling_.planning.queues, std::move(job)))
      Wrong(policy, "/placement" + never->pointer, never->value, never->message);
  }

  void CheckQueue(const ModelPolicy& policy) {
    if (policy.placement.queue.empty()) return;
    std::set<std::string> inner;
    std::vector<std::string_view> leaves;
    for (const scheduler::Queue& queue : scaling_.planning.queues) inner.insert(queue.parent);
    for (const scheduler::Queue& queue : scaling_.planning.queues) {
      if (!inner.contains(queue.name)) leaves.push_back(queue.name);
    }
    if (std::ranges::find(leaves, policy.placement.queue) != leaves.end()) return;
    Wrong(policy, "/placement/queue", policy.placement.queue,
          fmt::format("\"{}\" is not a queue that takes work; expected one of {}", policy.placement.queue,
                      fmt::join(leaves, ", ")));
  }

  void Wrong(const ModelPolicy& policy, std::string pointer, std::string value, std::string message) {
    complete_ = false;
    std::vector<conf::Problem> one;
    one.push_back({.file = policy.file,
                   .pointer = std::move(pointer),
                   .line = 0,
                   .value = std::move(value),
                   .message = std::move(message)});
    if (const auto text = document_.sources().file(policy.file); text.ok()) conf::AddLines(*text, one);
    problems_.push_back(std::move(one.front()));
  }

  conf::Document& document_;
  Config& config_;
  Scaling& scaling_;
  const MachineProbe& probe_;
  std::vector<conf::Problem>& problems_;
  std::map<std::string, std::string> owners_;  // model → file
  bool complete_ = true;
};

// The labels to which tenants keep. A machine that is probed has none, and then no job of theirs is accepted.
void CheckResidencies(conf::Document& document, const Config& config) {
  if (config.scaling->cluster.file.empty()) return;
  for (size_t t = 0; t < config.tenants.size(); ++t) {
    Placing kept;
    kept.require = config.tenants[t].residency;
    for (const PlacingDefect& defect : CheckPlacing(kept, config.scaling->nodes)) {
      const std::string label = defect.pointer.substr(defect.pointer.rfind('/'));
      document.AddAt(fmt::format("/tenants/{}/residency{}", t, label), defect.value, defect.message);
    }
  }
}

// The kinds of devices that budgets in device-hours name.
void CheckBudgets(conf::Document& document, const Config& config) {
  const scheduler::Cluster& cluster = config.scaling->nodes;
  if (cluster.kinds.empty()) return;
  for (size_t t = 0; t < config.tenants.size(); ++t) {
    const std::string pointer = fmt::format("/tenants/{}/budget", t);
    const bool one = document.Nearest(pointer).kind() != conf::Kind::kSequence;
    const std::vector<Budget>& budgets = config.tenants[t].budgets;
    for (size_t b = 0; b < budgets.size(); ++b) {
      const std::string& kind = budgets[b].device;
      const auto& kinds = cluster.kinds;
      if (kind.empty() || std::ranges::find(kinds, kind, &scheduler::DeviceKind::name) != kinds.end())
        continue;
      std::vector<std::string_view> names;
      names.reserve(kinds.size());
      for (const scheduler::DeviceKind& known : kinds) names.push_back(known.name);
      document.AddAt(one ? pointer + "/device" : fmt::format("{}/{}/device", pointer, b), kind,
                     fmt::format("unknown kind \"{}\"; expected one of {}", kind, fmt::join(names, ", ")));
    }
  }
}

}  // namespace

void LoadScaling(conf::Document& document, Config& config, const MachineProbe& probe,
                 std::vector<conf::Problem>& problems) {
  bool complete = true;
  if (config.scaling) {
    Loader loader(document, config, probe, problems);
    loader.Load();
    complete = loader.complete();
    CheckBudgets(document, config);
    if (complete) CheckResidencies(document, config);
  }
  for (size_t m = 0; complete && m < config.models.size(); ++m) {
    const Model& model = config.models[m];
    if (model.lora || !model.endpoints.empty()) continue;
    if (config.scaling && config.scaling->Find(model.name)) continue;
    const std::string pointer = fmt::format("/models/{}", m);
    if (document.Nearest(pointer + "/endpoints").pointer() == pointer + "/endpoints") continue;  // wrong
    document.AddAt(pointer + "/endpoints", "",
                   "is required, or a policy of the model's own under scaling.policies");
  }
}

}  // namespace gateway::config
