// The tests' Kubernetes API server. It runs on its own thread, so that its CPU time is not counted as the caller's.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/fake_kube.h"
#include "tests/support/temp_dir.h"

namespace bench::clusters {

class ApiServer {
 public:
  // `prepare` is called before anybody can ask it.
  explicit ApiServer(const std::function<void(tests::FakeKube&)>& prepare);
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  static constexpr std::string_view kNameSpace = "runs";

  gateway::net::Url url() const { return url_; }
  // A kubeconfig that leads to it.
  std::string kubeconfig() const { return folder_ / "kubeconfig"; }
  // Calls `act` on its thread, and returns when that is done.
  void Do(const std::function<void(tests::FakeKube&)>& act);
  // Requests so far whose method and path begin so, as FakeKube::seen has them.
  int Count(const std::string& prefix);
  // When each pod was asked for, in microseconds since 1970, in order.
  std::vector<int64_t> Created() const;

 private:
  tests::TempDir folder_;
  tests::TestLoop loop_;
  tests::FakeKube server_;
  gateway::net::Url url_;
  mutable std::mutex mutex_;
  std::vector<int64_t> created_;
  std::thread thread_;
};

}  // namespace bench::clusters
