#include "gateway/config/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/sweep.h"

namespace gateway::config {
namespace {

constexpr conf::Word<LauncherKind> kLaunchers[] = {{"process", LauncherKind::kProcess},
                                                   {"slurm", LauncherKind::kSlurm},
                                                   {"kubernetes", LauncherKind::kKubernetes}};
constexpr conf::Word<Shares> kShares[] = {
    {"refused", Shares::kRefused}, {"accounted", Shares::kAccounted}, {"mps", Shares::kMps}};
constexpr conf::Word<OnExit> kOnExit[] = {{"stop", OnExit::kStop}, {"keep", OnExit::kKeep}};

}  // namespace

std::string_view Name(LauncherKind launcher) {
  return conf::WordOf(kLaunchers, launcher);
}

const ModelPolicy* Scaling::Find(std::string_view model) const {
  const auto found = std::ranges::find(models, model, &ModelPolicy::model);
  return found == models.end() ? nullptr : &*found;
}

void Read(const conf::Value& value, PortRange& out) {
  const auto port = [](std::string_view text, uint16_t& to) {
    to = conf::ReadNumber<uint16_t>(text).value_or(0);
    return to >= 1024;
  };
  const std::string_view text = value.kind() == conf::Kind::kScalar ? std::string_view(value.text()) : "";
  const size_t dash = text.find('-');
  PortRange read;
  if (dash == text.npos || !port(text.substr(0, dash), read.first) ||
      !port(text.substr(dash + 1), read.last) || read.last < read.first) {
    return value.ErrorExpected("a range of ports from 1024 up, such as 20000-29999");
  }
  out = read;
}

void Read(const conf::Value& value, ClusterSource& out) {
  if (value.kind() == conf::Kind::kScalar) {
    conf::Read(value, out.file);
    if (out.file.empty()) value.Error("must not be empty");
    out.probe = out.file == "probe";
    if (out.probe) out.file.clear();
    return;
  }
  if (value.kind() != conf::Kind::kSequence)
    return value.ErrorExpected("probe, a cluster file, or a list of devices as {kind: h100, count: 8}");
  conf::Read(value, out.devices);
  std::set<std::string_view> kinds;
  for (const DeviceOption& option : out.devices) {
    if (!kinds.insert(option.kind).second)
      value.Error(
          fmt::format("kind {} is given twice; give it once, with the sum of the counts", option.kind));
  }
}

void Write(conf::Writer& writer, const ClusterSource& in) {
  if (in.probe || !in.file.empty()) {
    conf::Write(writer, in.probe ? std::string("probe") : in.file);
  } else if (!in.devices.empty()) {
    conf::Write(writer, in.devices);
  }
}

void Write(conf::Writer& writer, const PortRange& in) {
  conf::Write(writer, fmt::format("{}-{}", in.first, in.last));
}

void Read(const conf::Value& value, Resources& out) {
  std::map<std::string, uint32_t> counts;
  conf::Read(value, counts);
  out.all.clear();
  for (const auto& [name, count] : counts) {
    if (const std::string wrong = ValidName()(name); !wrong.empty()) value.ErrorAtKey(name, wrong);
    if (count == 0 || count > scheduler::kMostOfResource)
      value.ErrorAtKey(name, fmt::format("is {}; must be from 1 to {}", count, scheduler::kMostOfResource));
    out.all.push_back({name, count});
  }
}

void Write(conf::Writer& writer, const Resources& in) {
  std::map<std::string, uint32_t> counts;
  for (const scheduler::Resource& resource : in.all) counts[resource.name] = resource.count;
  conf::Write(writer, counts);
}

void Bind(conf::Object& o, DeviceOption& option) {
  o.Required("kind", option.kind, ValidName());
  o.Optional("count", option.count, conf::Range{1U, uint32_t{scheduler::kMaxDevices}});
}

bool FindsNodes(const Scaling& scaling) {
  return scaling.launcher == LauncherKind::kKubernetes && scaling.cluster.file.empty() &&
         scaling.cluster.devices.empty();
}

std::string WhyUnclaimed(const Scaling& scaling) {
  const bool declared =
      !scaling.cluster.probe && (!scaling.cluster.devices.empty() || !scaling.cluster.file.empty());
  if (scaling.launcher != LauncherKind::kProcess || !declared || !scaling.device_locks.empty()) return {};
  return "the devices that scaling.cluster declares are claimed nowhere: another gateway of this machine "
         "that "
         "declares them would give them out, too; set scaling.device_locks to one folder for all of them";
}

static void CheckKubernetes(conf::Object& o, const Scaling& scaling) {
  if (scaling.launcher != LauncherKind::kKubernetes) {
    if (o.Has("kubernetes")) o.Error("has no effect without launcher: kubernetes", "kubernetes");
    return;
  }
  if (!o.Has("kubernetes")) o.Error("is required with launcher: kubernetes", "kubernetes");
  if (o.Has("runs"))
    o.Error("has no effect with launcher: kubernetes; give pod.securityContext, or remove it", "runs");
  if (o.Has("device_locks"))
    o.Error("has no effect with launcher: kubernetes, which assigns the devices; remove it", "device_locks");
  if (!scaling.cluster.devices.empty()) {
    o.Error(
        "must be left out with launcher: kubernetes, for the nodes that Kubernetes has, or be a file that "
        "lists some by Kubernetes' names",
        "cluster");
  }
  if (!scaling.cluster.file.empty() && scaling.kubernetes && scaling.kubernetes->nodes) {
    o.Error("has nodes, which has no effect with a cluster file; remove one of the two", "kubernetes");
  }
}

static void CheckWeightsStore(conf::Object& o, const Scaling& scaling) {
  if (!scaling.weights) return;
  const WeightsStore& store = *scaling.weights;
  const bool pods = scaling.launcher == LauncherKind::kKubernetes;
  if (scaling.launcher == LauncherKind::kSlurm && store.program.empty()) {
    o.Error(
        "needs program with launcher: slurm: the path of tidegate on the nodes, which fetches weights there",
        "weights");
  }
  if (pods && store.image.empty())
    o.Error("needs image with launcher: kubernetes: an image of tidegate, which fetches weights", "weights");
  if (!pods && (!store.image.empty() || !store.claim.empty()))
    o.Error("has image or claim, which have an effect only with launcher: kubernetes; remove them",
            "weights");
}

static void CheckDataSets(conf::Object& o, const Scaling& scaling) {
  if (!scaling.data_sets.empty() && !scaling.weights)
    o.Error("need a store on the nodes; give weights.store", "data_sets");
  std::map<std::string, std::string_view> names;  // by the variable that tells jobs the folder
  for (const DataSet& data : scaling.data_sets) {
    const auto [other, added] = names.try_emplace(VariableOf(data.name, kDataVariable), data.name);
    if (added) continue;
    o.Error(fmt::format("{} and {} would both be the variable {}; give each data set a name of its own",
                        other->second, data.name, other->first),
            "data_sets");
  }
}

void Bind(conf::Object& o, Scaling& scaling) {
  o.Optional("policies", conf::OneOrMany(scaling.policies), conf::NotEmpty());
  o.Optional("launcher", conf::Choice(scaling.launcher, "launcher", kLaunchers));
  o.Optional("slurm", scaling.slurm);
  o.Optional("kubernetes", scaling.kubernetes);
  o.Optional("cluster", scaling.cluster);
  o.Optional("planner", scaling.planner, conf::NotEmpty());
  o.Optional("ports", scaling.ports);
  o.Optional("on_exit", conf::Choice(scaling.on_exit, "choice", kOnExit));
  o.Optional("shares", conf::Choice(scaling.shares, "choice", kShares));
  if (o.Has("shares") && scaling.launcher != LauncherKind::kProcess)
    o.Error("has no effect with another launcher than process: these give whole devices; remove it",
            "shares");
  o.Optional("runs", scaling.runs);
  o.Optional("device_locks", scaling.device_locks, conf::NotEmpty());
  o.Optional("device_metrics", scaling.device_metrics);
  o.Optional("energy", scaling.energy);
  o.Optional("power", scaling.power);
  o.Optional("moves", scaling.moves);
  o.Optional("weights", scaling.weights);
  o.Optional("data_sets", scaling.data_sets);
  o.Optional("resources", scaling.resources);
  CheckDataSets(o, scaling);
  const bool through_slurm = scaling.launcher == LauncherKind::kSlurm;
  if (through_slurm && !o.Has("slurm")) o.Error("is required with launcher: slurm", "slurm");
  if (through_slurm && o.Has("runs"))
    o.Error("has no effect with launcher: slurm, which sets the user of each run; remove it", "runs");
  if (through_slurm && o.Has("device_locks"))
    o.Error("has no effect with launcher: slurm, which assigns the devices; remove it", "device_locks");
  if (!through_slurm && o.Has("slurm")) o.Error("has no effect without launcher: slurm", "slurm");
  CheckKubernetes(o, scaling);
  CheckWeightsStore(o, scaling);
  if (scaling.power.cap_low_bands && !scaling.cluster.probe)
    o.Error("has cap_low_bands, which has an effect with cluster: probe only; remove it", "power");
  const bool no_budget = scaling.power.cluster_watts <= 0 && scaling.power.domain_watts.empty();
  if (scaling.power.cap_low_bands && no_budget)
    o.Error("has cap_low_bands, but no budget; give cluster_watts, or remove it", "power");
  if (through_slurm && scaling.cluster.file.empty()) {
    o.Error("must be a file with launcher: slurm, which lists the nodes by Slurm's names", "cluster");
  }
}

}  // namespace gateway::config
