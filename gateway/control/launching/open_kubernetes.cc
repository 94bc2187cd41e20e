#include "gateway/control/launching/open_kubernetes.h"

#include <nlohmann/json.hpp>

#include "gateway/config/sources.h"
#include "gateway/config/state_files.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "plugins/kubernetes/access.h"
#include "plugins/launchers/kubernetes.h"

namespace gateway::control {

absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenKubernetes(net::Loop& loop,
                                                                             const Config& config) {
  using plugins::launchers::KubernetesLauncher;
  const config::Scaling& scaling = *config.scaling;
  const config::Pods& pods = *scaling.kubernetes;
  const config::Kubernetes at = config.kubernetes.value_or(config::Kubernetes());
  const plugins::kubernetes::Place place{at.kubeconfig, at.context, at.name_space};
  const absl::StatusOr<plugins::kubernetes::Access> access =
      plugins::kubernetes::ReadAccess(place, SystemSources());
  if (!access.ok()) return access.status();
  KubernetesLauncher::Options options;
  options.access = [place] { return plugins::kubernetes::ReadAccess(place, SystemSources()); };
  options.name_space = access->name_space;
  options.gateway = pods.name;
  options.bind = pods.bind;
  options.ports = {scaling.ports.first, scaling.ports.last};
  options.devices = pods.devices;
  options.start_within = pods.start_within;
  options.lost_after = pods.lost_after;
  options.pull_policy = pods.image_pull_policy;
  options.safe_tenants = pods.tenant_pods == config::TenantPods::kSafe;
  options.pull_secrets = pods.image_pull_secrets;
  if (!pods.pod.empty()) options.pod = nlohmann::json::parse(pods.pod.json);
  if (config::FindsNodes(scaling)) {
    const config::FoundNodes nodes = pods.nodes.value_or(config::FoundNodes());
    options.discovery = nodes.how;
    options.node_selector = nodes.selector;
  } else {
    options.nodes = plugins::launchers::kubernetes::ExpectedOf(scaling.nodes);
  }
  options.logs = LauncherDir(config.server.state_dir) + "/logs";
  options.on_log_lost = [](const std::string& run, std::string_view why) {
    log::Warn("the output of a run is not kept", {{"run", run}, {"why", why}});
  };
  options.seed = static_cast<uint64_t>(net::Now().time_since_epoch().count());
  auto launcher = std::make_unique<KubernetesLauncher>(loop, std::move(options));
  launcher->Open();
  return launcher;
}

}  // namespace gateway::control
