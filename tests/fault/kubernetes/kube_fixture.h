// A launcher against a real Kubernetes, and what its tests ask of it.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gateway/config/sources.h"
#include "plugins/launchers/kubernetes.h"
#include "tests/support/kube_cluster.h"
#include "tests/support/loop_test.h"

namespace plugins::launchers {

namespace kubernetes_api = plugins::kubernetes;
using namespace std::chrono_literals;
using gateway::net::Now;
using gateway::net::Task;
using tests::Eventually;
using tests::RunOnLoop;
using tests::TestLoop;

class KubeTest : public testing::Test {
 protected:
  static constexpr conf::Duration kLong = 60s;

  void SetUp() override {
    if (const std::string why = tests::KubeCluster::WhyNot(); !why.empty()) {
      GTEST_SKIP() << "no Kubernetes here: " << why;
    }
    cluster_ = tests::KubeCluster::Fresh();
    ASSERT_NE(cluster_, nullptr);
  }

  KubernetesLauncher::Options Options() const {
    KubernetesLauncher::Options options;
    options.access = [place = kubernetes_api::Place{cluster_->kubeconfig(), "", cluster_->space()}] {
      return kubernetes_api::ReadAccess(place, gateway::SystemSources());
    };
    options.name_space = cluster_->space();
    options.gateway = "gateway-1";
    options.pull_policy = cluster_->has_parts() ? "Never" : "IfNotPresent";
    options.lost_after = 3s;
    for (int node = 1; node <= 3; ++node) options.nodes[fmt::format("node-{}", node)] = {"h100", 8};
    return options;
  }

  // Until it knows what there is.
  static Task<void> Ready(TestLoop& loop, KubernetesLauncher& launcher) {
    launcher.Open();
    const bool knows = co_await Eventually(
        loop, [&] { return launcher.shared() != nullptr && launcher.health().ok(); }, kLong);
    EXPECT_TRUE(knows) << launcher.health();
  }

  // Runs `script` in a shell until it is told to end.
  RunSpec Spec(const std::string& id, const std::string& node, int devices, const std::string& script) const {
    RunSpec spec;
    spec.id = id;
    spec.owner = "chat-small";
    spec.tenant = "demo";
    spec.grant.node = node;
    spec.grant.kind = devices > 0 ? "h100" : "";
    for (int i = 0; i < devices; ++i) spec.grant.devices.push_back(static_cast<uint8_t>(i));
    spec.image = cluster_->image();
    spec.command = {"/bin/sh", "-c", script, "sh", "{host}", "{port}"};
    spec.serves = true;
    spec.epoch = 7;
    return spec;
  }
  static constexpr const char* kWait = "while :; do sleep 0.2; done";

  // What List() says of a run, as soon as `condition` holds of it; the last there was, if it does not in time. While
  // Kubernetes is away it waits, too.
  static Task<std::optional<RunStatus>> Until(TestLoop& loop, KubernetesLauncher& launcher, std::string id,
                                              std::function<bool(const RunStatus&)> condition,
                                              conf::Duration patience = kLong) {
    std::optional<RunStatus> last;
    gateway::net::Sleep sleep(loop.watchdog);
    for (const conf::TimePoint deadline = Now() + patience; Now() < deadline;) {
      const auto all = co_await launcher.List();
      if (all.ok()) {
        last.reset();
        for (const RunStatus& status : *all) {
          if (status.id == id) last = status;
        }
        if (last && condition(*last)) co_return last;
      }
      co_await sleep.For(50ms);
    }
    ADD_FAILURE() << "run " << id << ": "
                  << (last ? fmt::format("state {}, {}", static_cast<int>(last->state), last->why)
                           : "is not there");
    co_return last ? last : std::optional<RunStatus>(RunStatus{});
  }
  static bool IsRunning(const RunStatus& status) { return status.state == RunState::kRunning; }
  static bool HasEnded(const RunStatus& status) { return status.state == RunState::kEnded; }

  static Task<std::string> LogOf(KubernetesLauncher& launcher, std::string id) {
    const auto log = co_await launcher.ReadLog(id);
    co_return log.ok() ? *log : std::string(log.status().message());
  }
  // Waits for a line of a run's output.
  static Task<bool> LogHas(TestLoop& loop, KubernetesLauncher& launcher, std::string id, std::string text) {
    gateway::net::Sleep sleep(loop.watchdog);
    std::string log;
    for (const conf::TimePoint deadline = Now() + 20s; Now() < deadline;) {
      log = co_await LogOf(launcher, id);
      if (log.find(text) != std::string::npos) co_return true;
      co_await sleep.For(100ms);
    }
    ADD_FAILURE() << "the log of " << id << ": " << log;
    co_return false;
  }

  // Pods of this name, all told; those of a launcher carry its label.
  size_t PodsOf(const std::string& id) const { return cluster_->Pod(id).is_null() ? 0 : 1; }
  std::string UidOf(const std::string& id) const {
    const tests::Json pod = cluster_->Pod(id);
    return pod.is_null() ? "" : pod["metadata"]["uid"].get<std::string>();
  }
  static const SharedNode* NodeOf(const KubernetesLauncher& launcher, const std::string& name) {
    if (launcher.shared() == nullptr) return nullptr;
    for (const SharedNode& node : launcher.shared()->nodes) {
      if (node.name == name) return &node;
    }
    return nullptr;
  }

  tests::KubeCluster* cluster_ = nullptr;
};

}  // namespace plugins::launchers
