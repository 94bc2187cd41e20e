// Members of a gang in a real Kubernetes: one pod each, which find their leader by its name.
#include "tests/fault/kubernetes/kube_fixture.h"

namespace plugins::launchers {
namespace {

TEST_F(KubeTest, AGangMeetsAtAHeadlessServiceThatGoesWithItsLeader) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    const std::string leader = launcher.AddressOf("gang.0", "node-1");
    EXPECT_THAT(leader, testing::HasSubstr(cluster_->space())) << "a name within the cluster";
    for (uint32_t rank = 0; rank < 2; ++rank) {
      RunSpec spec = Spec(fmt::format("gang.{}", rank), fmt::format("node-{}", rank + 1), 8,
                          "echo $RANK of $WORLD_SIZE at $MASTER; " + std::string(kWait));
      spec.gang = {rank, 2, leader, 21'500};
      spec.env = {{"RANK", "{rank}"}, {"WORLD_SIZE", "{size}"}, {"MASTER", "{leader}:{leader_port}"}};
      const absl::Status started = co_await launcher.Start(spec);
      EXPECT_TRUE(started.ok()) << started;
    }
    co_await Until(loop, launcher, "gang.0", IsRunning);
    co_await Until(loop, launcher, "gang.1", IsRunning);
    EXPECT_TRUE(co_await LogHas(loop, launcher, "gang.1", fmt::format("1 of 2 at {}:21500", leader)));

    const tests::Json services =
        cluster_->Read(fmt::format("/api/v1/namespaces/{}/services", cluster_->space()))["items"];
    EXPECT_EQ(services.size(), 1u) << services;
    if (services.empty()) co_return;
    EXPECT_EQ(services[0]["spec"]["clusterIP"], "None");
    EXPECT_EQ(services[0]["metadata"]["ownerReferences"][0]["name"], "gang.0");
    const std::string service = services[0]["metadata"]["name"];
    // What a cluster's DNS would say of the leader's name.
    const auto resolves = [&] {
      const tests::Json endpoints =
          cluster_->Read(fmt::format("/api/v1/namespaces/{}/endpoints/{}", cluster_->space(), service));
      return leader.find("." + service + ".") != std::string::npos &&
             endpoints.dump().find(fmt::format("\"hostname\":\"{}\"", leader.substr(0, leader.find('.')))) !=
                 std::string::npos;
    };
    EXPECT_TRUE(co_await Eventually(loop, resolves, kLong)) << leader << " " << service;

    for (const char* id : {"gang.0", "gang.1"}) EXPECT_TRUE((co_await launcher.Stop(id, 1s)).ok()) << id;
    for (const char* id : {"gang.0", "gang.1"}) {
      co_await Until(loop, launcher, id, HasEnded);
      EXPECT_TRUE((co_await launcher.Forget(id)).ok()) << id;
    }
    EXPECT_TRUE(co_await Eventually(
        loop,
        [&] {
          return cluster_->Read(fmt::format("/api/v1/namespaces/{}/services", cluster_->space()))["items"]
              .empty();
        },
        kLong));
    co_await launcher.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
