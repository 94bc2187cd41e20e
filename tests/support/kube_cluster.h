// A real Kubernetes for the tests of one process: three nodes of eight nvidia.com/gpu on this machine, in a network
// namespace of their own, which the process enters. The first test that asks for it starts it (half a minute), and it ends
// with the process, also if that is killed; one that an earlier process left behind is ended first.
//
// TIDEGATE_TEST_KUBE names the script that starts it (default: ../shared/kube/cluster beside the source tree; root
// and the packages of `tools/install_packages --list kubernetes`). TIDEGATE_TEST_KUBE_DIR names the folder of a cluster that
// tests/support/kube_up has started, which stays. Otherwise TIDEGATE_TEST_KUBECONFIG takes any cluster whose nodes can pull
// TIDEGATE_TEST_KUBE_IMAGE (tidegate-engine at /tidegate-engine, a shell); tests that stop parts of a cluster are skipped there.
//
// Thread: the test's main thread, before it starts others: a thread that runs already stays outside of the namespace.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/raw_client.h"
#include "tests/support/temp_dir.h"

namespace tests {

class KubeCluster {
 public:
  static constexpr milliseconds kLong{60'000};

  // The reason why none can be had here; empty: it can.
  static std::string WhyNot();
  // The process's cluster, with all of its parts running and nothing left of an earlier test; null, with a failure of the
  // test, when it does not come up.
  static KubeCluster* Fresh();

  ~KubeCluster();
  KubeCluster(const KubeCluster&) = delete;
  KubeCluster& operator=(const KubeCluster&) = delete;

  bool has_parts() const { return !script_.empty(); }  // Stop() and Start() work
  const std::string& kubeconfig() const { return kubeconfig_; }
  const std::string& image() const { return image_; }
  std::string server() const;  // https://…; with has_parts() only
  std::string token() const { return "admintoken"; }
  // A namespace of this test's own, which is there and may hold pods.
  const std::string& space() const { return space_; }
  const std::string& folder() const { return folder_; }  // on the nodes, too, with has_parts()

  // Through `kubectl proxy`, as an administrator.
  Answer Ask(std::string_view method, std::string_view path, const Json& body = nullptr,
             std::string_view type = "application/json") const;
  Json Read(std::string_view path) const { return Ask("GET", path).json(); }
  // The output of kubectl, both of it.
  std::string Kubectl(std::vector<std::string> words) const;

  // The pods of this test's namespace, by name; those of a selector such as "app=x", where one is given.
  std::vector<Json> Pods(std::string_view selector = {}) const;
  Json Pod(std::string_view name) const;  // null: there is none
  // A pod of another user: a shell that runs `script` on a node ("": the scheduler's choice) and holds devices.
  void Create(const std::string& name, const std::string& node, int devices, const std::string& script,
              const Json& spec = Json::object()) const;
  bool Runs(std::string_view name) const;
  void Delete(const std::string& name) const;  // at once

  // By name: "apiserver", "etcd", "scheduler", "controllers", "kubelet-1". Stop is kill -9. Start waits for the API server
  // where that is the part, and for nothing else.
  void Stop(const std::string& part);
  void Start(const std::string& part);
  bool NodeIsReady(int node) const;

 private:
  KubeCluster() = default;
  std::string Bring();  // the problem; empty: the cluster is up
  std::string BringOwn();
  std::string Serve();  // starts `kubectl proxy`
  void StartReaper();
  std::string Clean();
  std::string Tell(std::vector<std::string> words, milliseconds patience) const;

  TempDir own_;
  std::string script_;
  std::string folder_;
  std::string kubeconfig_;
  std::string image_;
  std::string space_;
  int spaces_ = 0;
  std::vector<std::string> stopped_;
  std::unique_ptr<ChildProcess> proxy_;
  uint16_t port_ = 0;  // of the proxy
  int reaper_pipe_ = -1;
  pid_t reaper_ = -1;
};

}  // namespace tests
