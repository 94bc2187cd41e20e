// KubernetesLauncher: runs as pods of Kubernetes, through its API.
//
// Each run is one pod, whose name is the run's id, on the node that it was given; Kubernetes' device plugin
// chooses which of the node's devices those are. Pods are found again by label and mark, so a restart loses
// nothing, and a creation whose answer was lost is not made twice. A pod that has ended is kept until the run
// is forgotten. A run whose start is not complete is not in List(), so that Start() is called again.
//
// Three watches follow the nodes, our pods, and all other pods that hold devices. While something starts or stops and
// the watch of our pods is silent, our pods are also listed. While the API server is away, the last known state stays.
//
// Thread: the loop's. Construct, Open() once, and Close() before destruction.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/net/async_mutex.h"
#include "gateway/net/loop.h"
#include "plugins/kubernetes/client.h"
#include "plugins/kubernetes/watch.h"
#include "plugins/launchers/kept_logs.h"
#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/kubernetes/cluster.h"
#include "plugins/launchers/kubernetes/discovery.h"
#include "plugins/launchers/kubernetes/manifest.h"
#include "plugins/launchers/kubernetes/runs.h"
#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

class KubernetesLauncher final : public Launcher {
 public:
  struct Options {
    plugins::kubernetes::Client::ReadAccess access{};
    std::string name_space{};  // of our pods
    std::string gateway{};     // names this gateway's runs, as a label; all that share a state have one name
    kubernetes::Binding bind = kubernetes::Binding::kAffinity;
    PortRange ports{21'000, 21'999};  // in the network of a node; else the first of them
    std::vector<kubernetes::DeviceResource> devices{};
    kubernetes::ExpectedNodes nodes{};  // of the planner's cluster, where the configuration lists them
    // Else how the cluster is made of the nodes that there are, of those that the selector of labels names.
    std::optional<kubernetes::Discovery> discovery{};
    std::string node_selector{};
    conf::Duration start_within = std::chrono::minutes(2);  // for a pod to be bound
    conf::Duration lost_after = std::chrono::seconds(60);   // for a node whose state is unknown
    std::string pull_policy{};
    std::vector<std::string> pull_secrets{};
    nlohmann::json pod = nlohmann::json::object();  // a piece of every pod
    bool safe_tenants = true;                       // a tenant's piece is checked
    std::string logs{};  // the folder in which the last output of runs is kept; empty: it is not
    // The output of a run could not be kept.
    std::function<void(const std::string& run, std::string_view why)> on_log_lost = [](const std::string&,
                                                                                       std::string_view) {};
    uint64_t seed = 0;
  };

  KubernetesLauncher(gateway::net::Loop& loop, Options options);
  ~KubernetesLauncher() override;

  void Open();

  std::string_view name() const override { return "kubernetes"; }
  gateway::net::Task<absl::Status> Start(RunSpec spec) override;
  // At least one second: with none, Kubernetes forgets a pod before its processes have ended.
  gateway::net::Task<absl::Status> Stop(std::string id, conf::Duration grace) override;
  // SIGTERM alone, after which the run has an hour until Stop() says otherwise.
  gateway::net::Task<absl::Status> Signal(std::string id, int signal) override;
  gateway::net::Task<absl::StatusOr<std::vector<RunStatus>>> List() override;
  gateway::net::Task<absl::Status> Forget(std::string id) override;
  gateway::net::Task<absl::StatusOr<std::string>> ReadLog(std::string id) override;
  gateway::net::Task<absl::Status> CheckPort(std::string id) override;
  gateway::net::Task<void> Close() override;
  std::string AddressOf(const std::string& id, const std::string& node) const override;
  std::string NodeAddress(const std::string& node) const override;

  const SharedCluster* shared() const override { return shared_known_ ? &shared_ : nullptr; }

  const FoundCluster* found() const override { return options_.discovery ? &found_ : nullptr; }

  // OK, or why the known state is old.
  absl::Status health() const;

 private:
  struct Other {
    std::string node{};
    kubernetes::Taken taken{};
    friend bool operator==(const Other&, const Other&) = default;
  };

  gateway::net::Task<void> Mind();
  gateway::net::Task<absl::Status> Refresh();
  // NotFound or Aborted: it is gone.
  gateway::net::Task<absl::Status> DeletePod(std::string id, std::string uid, conf::Duration grace);
  void KeepLogSoon(const std::string& id);
  gateway::net::Task<void> KeepLogs();
  gateway::net::Task<absl::Status> KeepLog(std::string id);
  gateway::net::Task<void> EndPod(std::string id, std::string uid);
  gateway::net::Task<absl::Status> Equip(const kubernetes::Submission& submission, std::string uid);
  absl::StatusOr<kubernetes::Submission> Compose(const RunSpec& spec, const kubernetes::Node& node) const;
  gateway::net::Task<absl::Status> CreatePod(const kubernetes::Submission& submission);
  plugins::kubernetes::Watch::Handlers OfNodes();
  plugins::kubernetes::Watch::Handlers OfRuns();
  plugins::kubernetes::Watch::Handlers OfOthers();
  void OnRun(const nlohmann::json& object, kubernetes::Runs::Round* round);
  void OnOther(const nlohmann::json& object, bool deleted);
  std::map<std::string, Other>::iterator ForgetOther(std::map<std::string, Other>::iterator known);
  void CheckLate();
  void FindCluster();
  void Share();
  void Tell();
  std::string PodsPath() const;
  std::string PodPath(const std::string& id) const;

  gateway::net::Loop& loop_;
  const Options options_;
  const kubernetes::DeviceTable table_;
  const std::vector<kubernetes::Toleration> tolerated_;
  plugins::kubernetes::Client client_;
  kubernetes::Runs runs_;
  kubernetes::Runs::Round round_;  // of the watch's list
  std::map<std::string, kubernetes::Node> nodes_;
  std::set<std::string> nodes_named_;
  std::map<std::string, Other> others_;                       // by uid; those that hold something
  std::map<std::string, kubernetes::Taken> taken_by_others_;  // by node
  std::set<std::string> others_named_;
  bool listing_nodes_ = false;
  bool listing_others_ = false;
  plugins::kubernetes::Watch watch_nodes_;
  plugins::kubernetes::Watch watch_runs_;
  plugins::kubernetes::Watch watch_others_;
  SharedCluster shared_;
  bool shared_known_ = false;
  bool shared_is_old_ = false;
  kubernetes::ExpectedNodes expected_;
  FoundCluster found_;
  std::vector<std::string> found_left_out_;
  bool found_is_old_ = true;
  bool found_is_raised_ = false;  // by devices that runs hold
  std::set<std::string> changed_;
  const KeptLogs logs_;
  std::set<std::string> read_to_end_;     // runs that have ended, whose output is being kept or is
  std::map<std::string, uint64_t> kept_;  // by run, the number of the request whose answer is kept
  uint64_t log_requests_ = 0;
  std::deque<std::string> to_keep_;  // runs whose output is to be asked for
  size_t keeping_ = 0;               // tasks that do so
  gateway::net::AsyncMutex file_turns_;
  std::set<std::string> ending_;  // runs whose pods we are deleting
  conf::TimePoint refreshed_at_{};

  gateway::net::Sleep sleep_;
  gateway::net::Event stopped_;
  bool open_ = false;
  bool closed_ = false;
};

}  // namespace plugins::launchers
