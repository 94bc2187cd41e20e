// Runs through a real Kubernetes: where they run, that they are never doubled, and what is said of them.
#include "tests/fault/kubernetes/kube_fixture.h"

namespace plugins::launchers {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(KubeTest, ARunIsAPodWhereThePlannerSaidAndEndsWithinItsGrace) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    std::vector<std::string> changes;
    launcher.on_change = [&](const std::string& id) { changes.push_back(id); };
    co_await Ready(loop, launcher);
    const std::string script =
        "trap 'echo bye; exit 7' TERM; echo user $(id -u) at $1 $2 with $SECRET; if echo x > /x; then echo "
        "writable; fi; " +
        std::string(kWait);
    RunSpec spec = Spec("chat-small.r1", "node-2", 2, script);
    spec.env = {{"SECRET", "sesame"}};
    const absl::Status started = co_await launcher.Start(spec);
    EXPECT_TRUE(started.ok()) << started;
    EXPECT_TRUE(
        (co_await launcher.Start(Spec("deaf", "node-3", 1, "trap '' TERM; echo deaf; " + std::string(kWait))))
            .ok());
    const auto running = co_await Until(loop, launcher, "chat-small.r1", IsRunning);
    EXPECT_EQ(running->owner, "chat-small");
    EXPECT_GT(running->port, 0);
    EXPECT_THAT(running->host, testing::StartsWith("10.78."));
    EXPECT_TRUE(co_await LogHas(loop, launcher, "chat-small.r1",
                                fmt::format("at {} {} with sesame", running->host, running->port)));
    EXPECT_THAT(co_await LogOf(launcher, "chat-small.r1"), Not(HasSubstr("user 0")));
    EXPECT_THAT(co_await LogOf(launcher, "chat-small.r1"), Not(HasSubstr("writable")));

    const tests::Json pod = cluster_->Pod("chat-small.r1");
    EXPECT_EQ(pod["spec"]["nodeName"], "node-2");
    EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "2");
    EXPECT_EQ(pod["metadata"]["labels"]["tidegate.io/workload"], "chat-small");
    EXPECT_EQ(pod["metadata"]["labels"]["tidegate.io/tenant"], "demo");
    EXPECT_EQ(pod["metadata"]["labels"]["tidegate.io/epoch"], "7");
    EXPECT_THAT(pod.dump(), Not(HasSubstr("sesame"))) << "who may read pods must not see what is secret";
    EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
    const absl::Status early = co_await launcher.Forget("chat-small.r1");
    EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;

    EXPECT_TRUE((co_await launcher.Stop("chat-small.r1", 20s)).ok());
    const auto ended = co_await Until(loop, launcher, "chat-small.r1", HasEnded);
    EXPECT_EQ(ended->exit_code, 7);
    EXPECT_EQ(ended->why, "");
    EXPECT_TRUE(ended->started && ended->ended && *ended->started <= *ended->ended);
    // One that is deleted while it is being started may run on for a minute.
    EXPECT_TRUE(co_await LogHas(loop, launcher, "deaf", "deaf"));
    EXPECT_TRUE((co_await launcher.Stop("deaf", 1s)).ok());
    const auto deaf = co_await Until(loop, launcher, "deaf", HasEnded);
    EXPECT_EQ(deaf->why, "");
    EXPECT_THAT(changes, Not(IsEmpty()));
    EXPECT_TRUE((co_await launcher.Stop("chat-small.r1", 1s)).ok());
    for (const char* id : {"chat-small.r1", "deaf"}) EXPECT_TRUE((co_await launcher.Forget(id)).ok()) << id;
    EXPECT_THAT(*co_await launcher.List(), IsEmpty());
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return PodsOf("chat-small.r1") == 0 && PodsOf("deaf") == 0; }, kLong))
        << "what is forgotten does not stay in Kubernetes";
    co_await launcher.Close();
  });
}

TEST_F(KubeTest, ReasonsOfStartsAndEndsAreSentences) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    cluster_->Create("other", "node-3", 8, kWait);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return cluster_->Runs("other"); }, kLong));

    EXPECT_TRUE((co_await launcher.Start(Spec("waits", "node-3", 1, kWait))).ok());
    RunSpec image = Spec("no-image", "node-1", 1, kWait);
    image.image = "local/absent:1";
    EXPECT_TRUE((co_await launcher.Start(image)).ok());
    RunSpec command = Spec("no-command", "node-1", 1, kWait);
    command.command = {"/no/such/engine"};
    EXPECT_TRUE((co_await launcher.Start(command)).ok());
    RunSpec hungry = Spec("hungry", "node-1", 1, "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done");
    hungry.grant.memory_mib = 24;
    EXPECT_TRUE((co_await launcher.Start(hungry)).ok());
    EXPECT_TRUE((co_await launcher.Start(Spec("fails", "node-2", 1, "echo no; exit 3"))).ok());
    EXPECT_TRUE((co_await launcher.Start(Spec("done", "node-2", 0, "echo yes"))).ok());

    const auto is_told = [](const char* words) {
      return [words](const RunStatus& status) { return status.why.find(words) != std::string::npos; };
    };
    const auto waits = co_await Until(loop, launcher, "waits", is_told("Insufficient nvidia.com/gpu"));
    EXPECT_EQ(waits->state, RunState::kStarting);
    const auto no_image = co_await Until(loop, launcher, "no-image", is_told("its image cannot be pulled"));
    EXPECT_THAT(no_image->why, HasSubstr("local/absent:1"));
    const auto no_command = co_await Until(loop, launcher, "no-command", HasEnded);
    EXPECT_THAT(no_command->why, HasSubstr("/no/such/engine"));
    const auto oom = co_await Until(loop, launcher, "hungry", HasEnded);
    EXPECT_THAT(oom->why, HasSubstr("memory"));
    const auto fails = co_await Until(loop, launcher, "fails", HasEnded);
    EXPECT_EQ(fails->exit_code, 3);
    const auto done = co_await Until(loop, launcher, "done", HasEnded);
    EXPECT_EQ(done->exit_code, 0);
    EXPECT_EQ(done->why, "");
    EXPECT_TRUE(co_await LogHas(loop, launcher, "fails", "no"));

    EXPECT_TRUE((co_await launcher.Stop("waits", 20s)).ok());
    const auto cancelled = co_await Until(loop, launcher, "waits", HasEnded);
    EXPECT_EQ(cancelled->exit_code, std::nullopt) << "it never had a process";
    const absl::Status nowhere = co_await launcher.Start(Spec("a", "node-9", 1, kWait));
    EXPECT_FALSE(nowhere.ok());
    co_await launcher.Close();
  });
}

TEST_F(KubeTest, ARunAskedForTwiceOrByAnotherProcessIsOnePod) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    uint16_t port = 0;
    std::string uid;
    {
      KubernetesLauncher launcher(loop, Options());
      co_await Ready(loop, launcher);
      EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 1, kWait))).ok());
      EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 1, kWait))).ok());
      EXPECT_TRUE((co_await launcher.Start(Spec("ends", "node-1", 1, "sleep 1; exit 4"))).ok());
      port = (co_await Until(loop, launcher, "r1", IsRunning))->port;
      co_await Until(loop, launcher, "ends",
                     [](const RunStatus& status) { return status.started.has_value(); });
      uid = UidOf("r1");
      co_await launcher.Close();
    }
    KubernetesLauncher again(loop, Options());
    co_await Ready(loop, again);
    EXPECT_TRUE((co_await again.Start(Spec("r1", "node-2", 1, kWait))).ok());
    const auto adopted = co_await Until(loop, again, "r1", IsRunning);
    EXPECT_EQ(adopted->port, port);
    EXPECT_EQ(adopted->owner, "chat-small");
    EXPECT_EQ(adopted->grant.node, "node-1");
    EXPECT_EQ(UidOf("r1"), uid);
    const auto ended = co_await Until(loop, again, "ends", HasEnded);
    EXPECT_EQ(ended->exit_code, 4) << "nobody was there when it ended";

    KubernetesLauncher::Options other = Options();
    other.gateway = "gateway-2";
    KubernetesLauncher foreign(loop, other);
    co_await Ready(loop, foreign);
    EXPECT_THAT(*co_await foreign.List(), IsEmpty()) << "another gateway's runs are not ours";
    co_await again.Close();
    co_await foreign.Close();
  });
}

TEST_F(KubeTest, APodThatNamesItsNodeIsRefusedByItWhereOthersHoldTheDevices) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher::Options options = Options();
    options.bind = kubernetes::Binding::kDirect;
    KubernetesLauncher launcher(loop, options);
    co_await Ready(loop, launcher);
    cluster_->Create("other", "node-1", 7, kWait);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return cluster_->Runs("other"); }, kLong));
    EXPECT_TRUE((co_await launcher.Start(Spec("fits", "node-1", 1, kWait))).ok());
    co_await Until(loop, launcher, "fits", IsRunning);
    EXPECT_TRUE((co_await launcher.Start(Spec("too-much", "node-1", 2, kWait))).ok());
    const auto refused = co_await Until(loop, launcher, "too-much", HasEnded);
    EXPECT_THAT(refused->why, HasSubstr("no nvidia.com/gpu left"));
    EXPECT_EQ(refused->exit_code, std::nullopt);
    co_await launcher.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
