#include "gateway/control/nodes/node_discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/log.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kChangeRetry = std::chrono::seconds(1);
// Nodes that are held back are looked at again this often.
constexpr conf::Duration kHeldBackRest = std::chrono::seconds(5);

// The description of a node in the ledger and in the log.
nlohmann::ordered_json Described(const scheduler::Cluster& cluster, const std::string& name) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  const auto node = std::ranges::find(cluster.nodes, name, &scheduler::Node::name);
  if (node == cluster.nodes.end()) return out;
  const scheduler::NodeType& type = cluster.types[node->type];
  if (type.devices > 0) out["kind"] = cluster.kinds[type.kind].name;
  out["devices"] = type.devices;
  out["cpu_milli"] = type.cpu_milli;
  out["memory_mib"] = type.memory_mib;
  nlohmann::ordered_json place = nlohmann::ordered_json::object();
  for (scheduler::DomainId d = node->domain; d != scheduler::kNone; d = cluster.fabric.domains[d].parent) {
    const scheduler::Domain& domain = cluster.fabric.domains[d];
    if (domain.parent != scheduler::kNone) place[cluster.fabric.levels[domain.level]] = domain.name;
  }
  if (!place.empty()) out["place"] = std::move(place);
  return out;
}

}  // namespace

net::Task<absl::Status> NodeDiscovery::Begin() {
  const plugins::launchers::FoundCluster* const found = context_.launcher->found();
  if (found == nullptr || applied_ != 0) co_return absl::OkStatus();
  if (found->version == 0) {
    co_return absl::UnavailableError(
        fmt::format("the nodes of {} are not known yet", context_.launcher->name()));
  }
  const uint64_t version = found->version;
  const scheduler::ClusterChange change = context_.planning->CompareCluster(found->cluster, {});
  const absl::Status applied = Apply(change);
  if (!applied.ok()) co_return applied;
  applied_ = version;
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (const scheduler::DeviceKind& kind : change.cluster.kinds)
    kinds[kind.name] = scheduler::DevicesOf(change.cluster, kind.name);
  const nlohmann::ordered_json detail = {{"nodes", change.cluster.nodes.size()}, {"devices", kinds}};
  log::Info("nodes found", {{"launcher", context_.launcher->name()}, {"what", conf::DumpJson(detail)}});
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = "nodes.found";
  event.actor = "control";
  event.subject = context_.launcher->name();
  event.detail = conf::DumpJson(detail);
  co_return co_await context_.record(std::move(event));
}

void NodeDiscovery::Tick() {
  const plugins::launchers::FoundCluster* const found = context_.launcher->found();
  if (found == nullptr || changing_) return;
  if (found->version == applied_ && !held_back_) return;
  const conf::TimePoint now = context_.now();
  if (now < next_) return;
  next_ = now + (found->version == applied_ ? kHeldBackRest : kChangeRetry);
  changing_ = true;
  context_.spawn(Change());
}

net::Task<void> NodeDiscovery::Change() {
  const uint64_t version = context_.launcher->found()->version;
  scheduler::Cluster found = context_.launcher->found()->cluster;
  label_(found);
  scheduler::ClusterChange change = context_.planning->CompareCluster(found, workloads_.Holdings());
  absl::Status status = absl::OkStatus();
  if (change.any()) {
    status = co_await Record(change, context_.cluster());
    // Workloads may have started and ended meanwhile.
    change = context_.planning->CompareCluster(found, workloads_.Holdings());
  }
  if (status.ok() && change.any()) status = Apply(change);
  changing_ = false;
  if (!status.ok()) {
    log::Error("a change of the nodes is not applied yet; retrying", {{"why", conf::Std(status.message())}});
    co_return;
  }
  recorded_.clear();
  applied_ = version;
  held_back_ = !change.held_back.empty();
  context_.wake();
}

net::Task<absl::Status> NodeDiscovery::Record(const scheduler::ClusterChange& change,
                                              const scheduler::Cluster& before) {
  // The cluster may be another one after an await.
  std::vector<std::tuple<std::string_view, std::string, std::string>> events;
  for (const std::string& node : change.joined)
    events.emplace_back("node.join", node, conf::DumpJson(Described(change.cluster, node)));
  for (const std::string& node : change.changed) {
    nlohmann::ordered_json detail = Described(change.cluster, node);
    detail["before"] = Described(before, node);
    events.emplace_back("node.change", node, conf::DumpJson(detail));
  }
  for (const std::string& node : change.left)
    events.emplace_back("node.leave", node, conf::DumpJson(Described(before, node)));
  for (auto& [action, node, detail] : events) {
    absl::Status recorded = co_await RecordOne(action, node, std::move(detail));
    if (!recorded.ok()) co_return recorded;
  }
  co_return absl::OkStatus();
}

net::Task<absl::Status> NodeDiscovery::RecordOne(std::string_view action, const std::string& node,
                                                 std::string detail) {
  std::string key = fmt::format("{} {} {}", action, node, detail);
  if (recorded_.contains(key)) co_return absl::OkStatus();
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = "control";
  event.subject = node;
  event.detail = detail;
  absl::Status recorded = co_await context_.record(std::move(event));
  if (!recorded.ok()) co_return recorded;
  log::Info(action, {{"node", node}, {"what", detail}});
  recorded_.insert(std::move(key));
  co_return absl::OkStatus();
}

absl::Status NodeDiscovery::Apply(const scheduler::ClusterChange& change) {
  if (const std::string defect = scheduler::FirstDefect(change.cluster); !defect.empty())
    return absl::InternalError(conf::Abseil(fmt::format("the nodes do not make a cluster: {}", defect)));
  context_.planning->UpdateCluster(change, context_.now());
  workloads_.Renumber(change.places);
  on_change_();
  return absl::OkStatus();
}

}  // namespace gateway::control
