#include "gateway/admin/overview.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "gateway/admin/handlers.h"
#include "gateway/admin/readiness.h"
#include "gateway/admin/scope.h"
#include "gateway/admin/shown_orders.h"
#include "gateway/control/jobs/jobs.h"
#include "scheduler/planner.h"

namespace gateway::admin {
namespace {

using control::ReplicaState;
using control::Workload;

std::map<std::string, uint64_t> RunningRequests(const Runtime& runtime) {
  std::map<std::string, uint64_t> running;
  for (const router::Replica& replica : runtime.routes().replicas()) {
    running[runtime.routes().model(replica.model).spec.name] +=
        static_cast<uint64_t>(runtime.load()[replica.id].load.requests());
  }
  return running;
}

void ShowScaling(const control::ModelStatus& status, answers::ModelNow& out) {
  const auto in = [&](ReplicaState state) { return status.replicas[static_cast<size_t>(state)]; };
  out.scaled = true;
  out.min = status.min;
  out.max = status.max;
  out.wanted = status.wanted;
  out.ready = out.capacity = in(ReplicaState::kReady);
  out.starting = in(ReplicaState::kLaunching) + in(ReplicaState::kWarming) + in(ReplicaState::kWaking);
  out.sleeping = in(ReplicaState::kAsleep);
  out.draining = in(ReplicaState::kDraining) + in(ReplicaState::kStopping);
  out.asleep = out.wanted + out.ready + out.starting + out.draining + in(ReplicaState::kWaiting) == 0;
  out.demand = status.demand;
  out.reason = status.why;
  out.trouble = answers::TextOrNull(status.trouble);
  uint64_t in_time = 0;
  uint64_t late = 0;
  for (const control::ClassStatus& of : status.classes) {
    in_time += of.in_time;
    late += of.late + of.hopeless;
  }
  if (in_time + late > 0)
    out.slo_attainment = static_cast<double>(in_time) / static_cast<double>(in_time + late);
}

void ShowTraffic(const RecentTraffic::Row& row, answers::ModelNow& out) {
  const double seconds = std::max(row.seconds, 1.0);
  out.requests_per_second = static_cast<double>(row.requests) / seconds;
  out.tokens_per_second = static_cast<double>(row.output_tokens) / seconds;
  if (!row.first_token) return;
  out.ttft_p50_ms = row.first_token->p50 * 1e3;
  out.ttft_p90_ms = row.first_token->p90 * 1e3;
}

std::vector<answers::ModelNow> ShowModels(const Operations& operations, const Call& call,
                                          const control::Status& status, const VisibleModels& visible) {
  const std::map<std::string, uint64_t> running = RunningRequests(*call.runtime);
  const std::vector<RecentTraffic::Row> traffic = operations.traffic();
  std::vector<answers::ModelNow> all;
  for (const ModelRuntime& model : call.runtime->models()) {
    const std::string& name = model.config->name;
    if (!visible.Has(name)) continue;
    answers::ModelNow& out = all.emplace_back();
    out.model = name;
    out.paused = ShownPause(operations, name);
    out.held = ShownHold(operations, name, call.now);
    if (const auto at = running.find(name); at != running.end()) out.running = at->second;
    if (!model.config->lora) out.waiting = model.waits->waiting();  // else in the queue of its base
    if (model.policy != nullptr) out.slo_ttft_ms = conf::ToMillis(model.policy->scaling.ttft);
    const auto of = std::ranges::find(status.models, name, &control::ModelStatus::model);
    if (of != status.models.end()) ShowScaling(*of, out);
    const auto row = std::ranges::find(traffic, name, &RecentTraffic::Row::model);
    if (row != traffic.end()) ShowTraffic(*row, out);
  }
  std::ranges::sort(all, {}, &answers::ModelNow::model);
  return all;
}

// The holders of devices, by the ids of replicas and jobs.
class Holders {
 public:
  using Holder = std::pair<std::string_view, std::string>;  // kind and name

  Holders(const Operations& operations, const Call& call, const control::Status& status,
          const VisibleModels& visible) {
    for (const control::ReplicaStatus& replica : status.replicas) {
      if (visible.Has(replica.model)) by_id_[replica.run] = {"model", replica.model};
    }
    const control::Jobs* const jobs = operations.jobs();
    if (jobs == nullptr) return;
    for (const Workload* job : jobs->all()) {
      if (job->holds() && call.May(Permission::kSeeJobs, job->file().job.tenant))
        by_id_[job->id] = {"job", job->file().name};
    }
  }

  Holder Of(const std::string& id) const {
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? Holder("other", std::string()) : at->second;
  }

 private:
  std::map<std::string, Holder> by_id_;
};

// The state of each device is one word, as on the map of the cluster.
answers::DevicesNow ShowDevices(const scheduler::Planner& planner, const control::Status& status,
                                const Holders& holders) {
  std::set<std::string> cordoned_nodes;
  std::set<std::pair<std::string, uint8_t>> cordoned_devices;
  std::set<std::pair<std::string, uint8_t>> faulty_devices;
  for (const control::Cordon& cordon : status.cordons) {
    if (cordon.device) {
      cordoned_devices.emplace(cordon.node, *cordon.device);
    } else {
      cordoned_nodes.insert(cordon.node);
    }
  }
  for (const plugins::launchers::DeviceFault& fault : status.faults)
    faulty_devices.emplace(fault.node, fault.device);
  const scheduler::ClusterState& state = planner.state();
  const scheduler::Cluster& cluster = state.cluster();
  answers::DevicesNow out;
  std::map<Holders::Holder, double> held;
  for (scheduler::NodeId id = 0; id < cluster.nodes.size(); ++id) {
    const std::string& name = cluster.nodes[id].name;
    const size_t devices = cluster.type_of(id).devices;
    const bool node_aside = cordoned_nodes.contains(name) || state.health(id) != scheduler::Health::kHealthy;
    std::vector<std::vector<Holders::Holder>> of(devices);
    for (const scheduler::MemberId member : state.on(id)) {
      const scheduler::Member& at = state.member(member);
      for (size_t d = 0; d < devices; ++d) {
        if ((at.holding.devices >> d & 1) != 0) of[d].push_back(holders.Of(planner.jobs()[at.job].job.id));
      }
    }
    out.total += devices;
    for (size_t d = 0; d < devices; ++d) {
      for (const Holders::Holder& holder : of[d]) held[holder] += 1.0 / static_cast<double>(of[d].size());
      const std::pair device(name, static_cast<uint8_t>(d));
      const bool cordoned = cordoned_devices.contains(device);
      const bool faulty = faulty_devices.contains(device) || (!state.node(id).device[d].healthy && !cordoned);
      if (faulty) {
        ++out.faulty;
      } else if (of[d].empty()) {
        ++(cordoned || node_aside ? out.cordoned : out.free);
      }
    }
  }
  if (status.cluster.known) {
    const auto rounded = [](double rate) { return std::round(rate * 1000) / 1000; };  // so that it rests
    out.allocation_rate = rounded(status.cluster.now.gar);
    out.occupation_rate = rounded(status.cluster.sor);
    out.node_fragmentation_rate = rounded(status.cluster.now.gfr);
    out.fragmented_share = rounded(status.cluster.now.fragmentation);
    out.waiting = static_cast<double>(status.cluster.now.waiting) / scheduler::kWholeDevice;
  }
  for (const auto& [holder, number] : held) {
    out.by_holder.push_back(
        {.holder = answers::TextOrNull(holder.second), .kind = holder.first, .devices = number});
  }
  return out;
}

answers::JobsNow CountJobs(const Operations& operations, const Call& call) {
  answers::JobsNow out;
  const control::Jobs* const jobs = operations.jobs();
  if (jobs == nullptr) return out;
  for (const Workload* job : jobs->all()) {
    if (!call.May(Permission::kSeeJobs, job->file().job.tenant)) continue;
    if (job->state == control::State::kPending) {
      ++out.waiting;
    } else if (job->holds()) {
      ++out.running;
    }
  }
  return out;
}

// Parts that belong to a model are told to those who see the model.
bool IsVisible(const answers::Condition& condition, const VisibleModels& visible, const Call& call) {
  const std::string_view part = condition.part;
  const std::string_view name = part.substr(std::min(part.find(':'), part.size() - 1) + 1);
  if (part.starts_with("discovery:")) return call.caller.authority.MayEverywhere(Permission::kSeeReplicas);
  if (part.starts_with("model:")) return visible.Has(name);
  if (part.starts_with("endpoint:")) return visible.Has(name.substr(0, name.rfind('@')));
  return true;
}

}  // namespace

answers::Overview OverviewOf(const Operations& operations, const Call& call) {
  const control::Status status = operations.scaling();
  const VisibleModels visible(call);
  answers::Overview out{.at = {call.now}, .models = ShowModels(operations, call, status, visible)};
  if (const scheduler::Planner* const planner = operations.planner())
    out.devices = ShowDevices(*planner, status, Holders(operations, call, status, visible));
  out.jobs = CountJobs(operations, call);
  answers::Readiness readiness = Judge(operations, call.now);
  for (std::vector<answers::Condition>* const some : {&readiness.degraded, &readiness.warnings}) {
    for (answers::Condition& condition : *some) {
      if (IsVisible(condition, visible, call)) out.conditions.push_back(std::move(condition));
    }
  }
  return out;
}

Answer ShowOverview(const Operations& operations, const Call& call) {
  return Json(OverviewOf(operations, call));
}

}  // namespace gateway::admin
