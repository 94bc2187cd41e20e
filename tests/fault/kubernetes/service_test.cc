// What runs on a real Kubernetes already: pods are found by their Service, and a policy scales their Deployment.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/fault/gateway/scaling.h"
#include "tests/fault/kubernetes/kube_gateway.h"

namespace tests {
namespace {

class KubeService : public testing::Test {
 protected:
  static constexpr milliseconds kLong = KubeCluster::kLong;

  void SetUp() override {
    if (const std::string why = KubeCluster::WhyNot(); !why.empty())
      GTEST_SKIP() << "no Kubernetes here: " << why;
    cluster_ = KubeCluster::Fresh();
    ASSERT_NE(cluster_, nullptr);
    std::ofstream(folder_ / "key") << kScalingAdminKey;
    chmod((folder_ / "key").c_str(), 0600);
    Apply("/api/v1/namespaces/{}/services",
          {{"metadata", {{"name", "vllm"}}},
           {"spec",
            {{"clusterIP", "None"},
             {"selector", {{"app", "vllm"}}},
             {"ports", {{{"name", "http"}, {"port", 8000}, {"targetPort", 8000}}}}}}});
  }
  void TearDown() override {
    if (cluster_ == nullptr) return;
    cluster_->Ask("DELETE",
                  Path("/apis/apps/v1/namespaces/{}/deployments/vllm?propagationPolicy=Background"));
    cluster_->Ask("DELETE", Path("/api/v1/namespaces/{}/services/vllm"));
  }

  std::string Path(std::string_view with_space) const {
    return fmt::format(fmt::runtime(with_space), cluster_->space());
  }
  void Apply(std::string_view path, const Json& object) const {
    const Answer made = cluster_->Ask("POST", Path(path), object);
    EXPECT_EQ(made.status, 201) << made.body;
  }
  void Deploy(int replicas) const {
    Apply("/apis/apps/v1/namespaces/{}/deployments",
          {{"metadata", {{"name", "vllm"}}},
           {"spec",
            {{"replicas", replicas},
             {"selector", {{"matchLabels", {{"app", "vllm"}}}}},
             {"template",
              {{"metadata", {{"labels", {{"app", "vllm"}}}}},
               {"spec",
                {{"terminationGracePeriodSeconds", 2},
                 {"automountServiceAccountToken", false},
                 {"containers",
                  {{{"name", "engine"},
                    {"image", cluster_->image()},
                    {"imagePullPolicy", cluster_->has_parts() ? "Never" : "IfNotPresent"},
                    {"command",
                     {"/tidegate-engine", "--listen", "0.0.0.0", "--port", "8000", "--model", "chat-small",
                      "--preset", "instant"}},
                    {"readinessProbe",
                     {{"httpGet", {{"path", "/health"}, {"port", 8000}}}, {"periodSeconds", 1}}}}}}}}}}}}});
  }
  void Scale(int replicas) const {
    const Answer scaled = cluster_->Ask("PATCH", Path("/apis/apps/v1/namespaces/{}/deployments/vllm/scale"),
                                        {{"spec", {{"replicas", replicas}}}}, "application/merge-patch+json");
    EXPECT_EQ(scaled.status, 200) << scaled.body;
  }
  int Replicas() const {
    return cluster_->Read(Path("/apis/apps/v1/namespaces/{}/deployments/vllm/scale"))["spec"].value(
        "replicas", 0);
  }

  GatewayConfig Config() const {
    return {.replicas = {},
            .model =
                "endpoints: [{name: pool, kubernetes: {service: vllm, port: http}, engine: vllm}], "
                "queue: {max_wait: 60s}",
            .sections = KubeAccess(*cluster_) +
                        fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder_ / "key")};
  }
  GatewayConfig Scaling(const std::string& replicas, const std::string& hold) const {
    std::ofstream(folder_ / "policy.yaml") << fmt::format(
        "model: chat-small\nreplicas: {}\nscaling: {{policy: demand, window: 5s, hold: 1s}}\n"
        "idle: {{scale_to_zero_after: 2s}}\nscale: {{deployment: vllm, hold: {}}}\n",
        replicas, hold);
    GatewayConfig config = Config();
    config.sections += fmt::format("scaling: {{policies: [\"{}\"]}}\n", folder_ / "policy.yaml");
    return config;
  }
  static Json Endpoints(const GatewayProcess& gateway) {
    return gateway.AskAdmin(Get("/admin/v1/endpoints", Scaled::Credentials())).json()["data"];
  }
  static bool Becomes(const GatewayProcess& gateway, size_t count) {
    return Within(kLong, [&] { return Pause(milliseconds(50)), Endpoints(gateway).size() == count; });
  }
  static bool Told(const GatewayProcess& gateway, std::string_view action) {
    return Within(kLong, [&] {
      Pause(milliseconds(100));
      return std::ranges::any_of(gateway.Records(),
                                 [&](const auto& record) { return record.action == action; });
    });
  }

  TempDir folder_;
  KubeCluster* cluster_ = nullptr;
};

TEST_F(KubeService, PodsOfAServiceAreReplicasThatComeAndGo) {
  Deploy(2);
  const GatewayProcess gateway(Config());
  ASSERT_TRUE(Becomes(gateway, 2)) << Endpoints(gateway);
  EXPECT_EQ(Endpoints(gateway)[0]["source"], "kubernetes:vllm:http");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  Scale(3);
  EXPECT_TRUE(Becomes(gateway, 3)) << Endpoints(gateway);
  Scale(1);
  EXPECT_TRUE(Becomes(gateway, 1)) << Endpoints(gateway);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
}

TEST_F(KubeService, ThePodsStayWhileTheApiServerIsAway) {
  if (!cluster_->has_parts()) GTEST_SKIP() << "a part of this cluster cannot be stopped";
  Deploy(2);
  const GatewayProcess gateway(Config());
  ASSERT_TRUE(Becomes(gateway, 2)) << Endpoints(gateway);
  cluster_->Stop("apiserver");
  EXPECT_TRUE(Within(kLong, [&] {
    Pause(milliseconds(100));
    return gateway.AskAdmin(Get("/readyz")).body.find("discovery:kubernetes:vllm") != std::string::npos;
  }));
  EXPECT_EQ(Endpoints(gateway).size(), 2u);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  cluster_->Start("apiserver");
  Scale(1);
  EXPECT_TRUE(Becomes(gateway, 1)) << Endpoints(gateway);
}

TEST_F(KubeService, ADeploymentAtZeroStartsForTheFirstRequestAndGoesBack) {
  Deploy(0);
  const GatewayProcess gateway(Scaling("{min: 0, max: 2}", "10m"));
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_TRUE(Told(gateway, "scale.set"));
  EXPECT_TRUE(Within(kLong, [&] { return Pause(milliseconds(200)), Replicas() == 0; })) << Replicas();
  EXPECT_TRUE(Becomes(gateway, 0)) << Endpoints(gateway);
}

TEST_F(KubeService, SomebodyElsesNumberIsToldAndOverwrittenAfterHold) {
  Deploy(1);
  const GatewayProcess gateway(Scaling("{min: 1, max: 2}", "10s"));
  ASSERT_TRUE(Becomes(gateway, 1)) << Endpoints(gateway);
  Pause(milliseconds(6000));  // it has seen the number
  Scale(2);
  EXPECT_TRUE(Told(gateway, "scale.changed_elsewhere"));
  EXPECT_TRUE(Within(kLong, [&] { return Pause(milliseconds(200)), Replicas() == 1; })) << Replicas();
}

TEST_F(KubeService, AnObjectThatDoesNotExistIsTheModelsTrouble) {
  const GatewayProcess gateway(Scaling("{min: 1, max: 2}", "10s"));
  EXPECT_TRUE(Within(kLong, [&] {
    Pause(milliseconds(100));
    return gateway.AskAdmin(Get("/readyz")).body.find("deployment vllm cannot be scaled") !=
           std::string::npos;
  }));
}

}  // namespace
}  // namespace tests
