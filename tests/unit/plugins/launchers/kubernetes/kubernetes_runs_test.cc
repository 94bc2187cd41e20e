#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "plugins/kubernetes/watch.h"
#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/kubernetes/cluster.h"
#include "plugins/launchers/kubernetes/manifest.h"
#include "plugins/launchers/kubernetes/runs.h"
#include "tests/support/shipped.h"

namespace plugins::launchers::kubernetes {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Recorded(const std::string& name) {
  return tests::ReadShipped(tests::ConfDirectory().parent_path() /
                            ("tests/unit/plugins/launchers/kubernetes/recorded/" + name));
}

std::map<std::string, Pod> RecordedPods() {
  std::map<std::string, Pod> pods;
  const auto page = plugins::kubernetes::ReadPage(Recorded("pods.json"), [&](const json& object) {
    if (auto pod = ReadPod(object)) pods[pod->name] = *pod;
  });
  EXPECT_TRUE(page.ok()) << page.status();
  return pods;
}

Submission Simple() {
  Submission submission;
  submission.run.id = "chat-small-1";
  submission.run.owner = "chat-small";
  submission.run.image = "image:1";
  submission.run.command = {"serve", "--host", "{host}", "--port", "{port}", "$(HOME)"};
  submission.run.env = {{"KEY", "secret-key"}};
  submission.run.grant.node = "node-1";
  submission.run.grant.kind = "h100";
  submission.run.grant.devices = {0, 1};
  submission.run.serves = true;
  submission.gateway = "gw";
  submission.name_space = "ns";
  submission.resource = "nvidia.com/gpu";
  submission.count = 2;
  submission.port = 20'000;
  return submission;
}

Pod PodOf(const Submission& submission) {
  json object = RenderPod(submission);
  object["metadata"]["uid"] = "uid-1";
  return *ReadPod(object);
}

TEST(KubernetesManifest, APodNamesTheRunItsNodeAndItsDevices) {
  const json pod = RenderPod(Simple());
  EXPECT_EQ(pod["metadata"]["name"], "chat-small-1");
  EXPECT_EQ(pod["metadata"]["labels"]["tidegate.io/gateway"], "gw");
  const json& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"], "2");
  EXPECT_EQ(container["command"],
            json({"serve", "--host", "$(TIDEGATE_POD_IP)", "--port", "20000", "$$(HOME)"}));
  EXPECT_EQ(container["securityContext"]["capabilities"]["drop"], json::array({"ALL"}));
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_THAT(pod["spec"]["affinity"].dump(), HasSubstr("node-1"));
}

TEST(KubernetesManifest, TheEnvironmentIsInTheSecretAlone) {
  const Submission submission = Simple();
  EXPECT_THAT(RenderPod(submission).dump(), testing::Not(HasSubstr("secret-key")));
  const json secret = RenderSecret(submission, "uid-1");
  EXPECT_EQ(secret["stringData"]["KEY"], "secret-key");
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["uid"], "uid-1");
}

TEST(KubernetesManifest, APieceIsMergedByName) {
  Submission submission = Simple();
  submission.run.pod = R"({"volumes":[{"name":"models","emptyDir":{}}],
    "containers":[{"name":"run","volumeMounts":[{"name":"models","mountPath":"/models"}]}]})";
  EXPECT_EQ(FirstDefect(submission), "");
  const json spec = RenderPod(submission)["spec"];
  EXPECT_EQ(spec["volumes"].size(), 2U);
  ASSERT_EQ(spec["containers"].size(), 1U);
  EXPECT_EQ(spec["containers"][0]["volumeMounts"].size(), 2U);
  EXPECT_EQ(spec["containers"][0]["image"], "image:1");
}

TEST(KubernetesManifest, WhatTidegateSetsCannotBeGiven) {
  EXPECT_TRUE(WrongPiece(json{{"nodeName", "x"}}));
  EXPECT_TRUE(WrongPiece(json::parse(R"({"containers":[{"name":"run","image":"x"}]})")));
  EXPECT_FALSE(WrongPiece(json::parse(R"({"tolerations":[{"operator":"Exists"}]})")));
}

TEST(KubernetesManifest, ATenantsPieceReachesNothingOfOthers) {
  EXPECT_TRUE(UnsafePiece(json{{"hostNetwork", true}}));
  EXPECT_TRUE(UnsafePiece(json::parse(R"({"volumes":[{"name":"v","hostPath":{"path":"/"}}]})")));
  EXPECT_TRUE(
      UnsafePiece(json::parse(R"({"containers":[{"name":"run","securityContext":{"privileged":true}}]})")));
  EXPECT_FALSE(UnsafePiece(json::parse(R"({"volumes":[{"name":"v","emptyDir":{}}]})")));
}

TEST(KubernetesManifest, NamesThatAreNoTextsAreRefused) {
  for (const char* piece : {R"({"containers":[{"name":"run","env":[{"name":5,"value":"x"}]}]})",
                            R"({"containers":[{"name":"run","env":[{"name":null,"value":"x"}]}]})",
                            R"({"containers":[{"name":"run","env":[{"value":"x"}]}]})",
                            R"({"containers":[{"name":5}]})", R"({"initContainers":[{"name":5}]})"}) {
    EXPECT_TRUE(WrongPiece(json::parse(piece))) << piece;
    EXPECT_TRUE(UnsafePiece(json::parse(piece)) || WrongPiece(json::parse(piece))) << piece;
    Submission submission = Simple();
    submission.run.pod = piece;
    EXPECT_NE(FirstDefect(submission), "") << piece;
  }
}

TEST(KubernetesManifest, ATenantsPieceTakesNoProtectionAway) {
  for (const char* piece :
       {R"({"securityContext":null})", R"({"containers":[{"name":"run","securityContext":null}]})",
        R"({"containers":[{"name":"run","securityContext":{"allowPrivilegeEscalation":null}}]})",
        R"({"securityContext":5})", R"({"securityContext":{"runAsNonRoot":false}})",
        R"({"securityContext":{"runAsUser":0}})", R"({"volumes":null})",
        R"({"containers":[{"name":"run","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]})",
        R"({"aFieldOfALaterKubernetes":true})"}) {
    EXPECT_TRUE(UnsafePiece(json::parse(piece))) << piece;
    Submission submission = Simple();
    submission.run.pod = piece;
    EXPECT_EQ(FirstDefect(submission), "") << "an operator's may: " << piece;
    submission.run.tenant = "search";
    EXPECT_NE(FirstDefect(submission), "") << piece;
    submission.safe_tenants = false;
    EXPECT_EQ(FirstDefect(submission), "") << piece;
  }
  EXPECT_FALSE(UnsafePiece(json::parse(
      R"({"securityContext":{"runAsUser":1000},"containers":[{"name":"run","env":[{"name":"A","value":"b"}],
          "securityContext":{"readOnlyRootFilesystem":false,"privileged":false}}]})")));
}

TEST(KubernetesManifest, ATenantsPieceMountsItsOwnVolumesOnly) {
  Submission submission = Simple();
  submission.run.tenant = "search";
  submission.defaults =
      json::parse(R"({"volumes":[{"name":"weights","persistentVolumeClaim":{"claimName":"w"}}],
    "containers":[{"name":"run","imagePullPolicy":"Always",
      "volumeMounts":[{"name":"weights","mountPath":"/w","readOnly":true}]}]})");
  for (
      const char* piece :
      {R"({"containers":[{"name":"run","volumeMounts":[{"name":"weights","mountPath":"/w","readOnly":false}]}]})",
       R"({"containers":[{"name":"run","volumeMounts":[{"mountPath":"/w","readOnly":false}]}]})",
       R"({"volumes":[{"name":"weights"}],
            "containers":[{"name":"run","volumeMounts":[{"name":"weights","mountPath":"/x"}]}]})",
       R"({"volumes":[{"name":"weights","emptyDir":{}}],
            "containers":[{"name":"run","volumeMounts":[{"name":"weights","mountPath":"/x"}]}]})",
       R"({"volumes":[]})", R"({"containers":[{"name":"run","imagePullPolicy":"IfNotPresent"}]})",
       R"({"volumes":[{"name":"own","emptyDir":{}}],"containers":[{"name":"run",
            "volumeMounts":[{"name":"own","mountPath":"/x","mountPropagation":"Bidirectional"}]}]})"}) {
    submission.run.pod = piece;
    EXPECT_NE(FirstDefect(submission), "") << piece;
  }
  submission.run.pod = R"({"volumes":[{"name":"own","emptyDir":{}}],
    "containers":[{"name":"run","volumeMounts":[{"name":"own","mountPath":"/x"}]}]})";
  EXPECT_EQ(FirstDefect(submission), "");
  EXPECT_EQ(RenderPod(submission)["spec"]["containers"][0]["volumeMounts"].size(), 3U);
}

TEST(KubernetesManifest, ATenantsPieceHasNoProbesThatTheNodeWouldMake) {
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"}) {
    const json piece = {
        {"containers",
         json::array({{{"name", "run"}, {probe, {{"httpGet", {{"host", "10.0.0.1"}, {"port", 80}}}}}}})}};
    EXPECT_TRUE(UnsafePiece(piece)) << probe;
  }
}

TEST(KubernetesManifest, MountsAreMergedByTheirPathAndPortsByNumberAndProtocol) {
  json base =
      json::parse(R"({"volumeMounts":[{"name":"data","mountPath":"/a"},{"name":"data","mountPath":"/b"}],
    "ports":[{"name":"serve","containerPort":80}]})");
  Merge(base, json::parse(R"({"volumeMounts":[{"name":"data","mountPath":"/c","subPath":"c"},
      {"name":"data","mountPath":"/a","readOnly":true}],
    "ports":[{"containerPort":80,"protocol":"UDP"},{"containerPort":80,"protocol":"TCP","name":"http"}]})"));
  ASSERT_EQ(base["volumeMounts"].size(), 3U) << base;
  EXPECT_EQ(base["volumeMounts"][0]["readOnly"], true);
  EXPECT_EQ(base["volumeMounts"][1]["mountPath"], "/b");
  EXPECT_EQ(base["volumeMounts"][2]["subPath"], "c");
  ASSERT_EQ(base["ports"].size(), 2U) << base;
  EXPECT_EQ(base["ports"][0]["name"], "http");
}

TEST(KubernetesManifest, AMarkIsReadAsItWasWritten) {
  const Mark mark{"a-1", "a", "team/x", 20'000, Simple().run.grant};
  const auto read = ReadMark(Render(mark));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tenant, "team/x");
  EXPECT_EQ(read->grant.devices, mark.grant.devices);
}

TEST(KubernetesManifest, MembersOfAGangShareTheServiceOfTheirLeader) {
  const std::string address = GangAddress("job-1.0", "ns");
  EXPECT_TRUE(address.starts_with("job-1-0.gang-"));
  EXPECT_TRUE(ServiceOf(address).starts_with("gang-"));
  EXPECT_EQ(ServiceOf("10.0.0.1"), "");
}

TEST(KubernetesRuns, RecordedStatesAreToldInWords) {
  const std::map<std::string, Pod> pods = RecordedPods();
  ASSERT_TRUE(pods.contains("evicted"));
  EXPECT_THAT(WhyEnded(pods.at("evicted"), false), HasSubstr("evicted its pod"));
  ASSERT_TRUE(pods.contains("errimagepull"));
  EXPECT_THAT(WhyWaiting(pods.at("errimagepull")), HasSubstr("cannot be pulled"));
  ASSERT_TRUE(pods.contains("deadline"));
  EXPECT_TRUE(pods.at("deadline").over());
}

TEST(KubernetesRuns, AnEndedContainerEndsItsRun) {
  Runs runs("gw", {20'000, 20'010});
  Pod pod = PodOf(Simple());
  pod.node = "node-1";
  pod.running = true;
  pod.ip = "10.0.0.5";
  const conf::TimePoint now(std::chrono::hours(1'000'000));
  EXPECT_TRUE(runs.Apply(pod, now));
  ASSERT_EQ(runs.List().size(), 1U);
  EXPECT_EQ(runs.List()[0].state, RunState::kRunning);
  EXPECT_EQ(runs.List()[0].host, "10.0.0.5");
  EXPECT_EQ(runs.List()[0].port, 20'000);
  pod.running = false;
  pod.terminated = true;
  pod.exit_code = 137;
  pod.terminated_reason = "OOMKilled";
  EXPECT_TRUE(runs.Apply(pod, now));
  EXPECT_EQ(runs.List()[0].state, RunState::kEnded);
  EXPECT_EQ(runs.List()[0].signal, 9);
  EXPECT_THAT(runs.List()[0].why, HasSubstr("more memory"));
}

TEST(KubernetesRuns, APodThatAListDoesNotNameHasEndedItsRun) {
  Runs runs("gw", {20'000, 20'010});
  const conf::TimePoint now;
  runs.Apply(PodOf(Simple()), now);
  EXPECT_TRUE(runs.Listed(runs.Begin(), now).size() == 1);
  EXPECT_EQ(runs.List()[0].state, RunState::kEnded);
}

TEST(KubernetesRuns, AListThatIsOlderThanACreationEndsNothing) {
  Runs runs("gw", {20'000, 20'010});
  const conf::TimePoint now;
  const Runs::Round round = runs.Begin();
  runs.Ask(Simple().run, "", 20'000, false, true, now);
  runs.Created("chat-small-1", "uid-1", true);
  EXPECT_TRUE(runs.Listed(round, now).empty());
  EXPECT_EQ(runs.List()[0].state, RunState::kStarting);
}

TEST(KubernetesRuns, AListThatIsOlderThanAnEventEndsNothing) {
  const conf::TimePoint now;
  for (const bool asked : {false, true}) {
    Runs runs("gw", {20'000, 20'010});
    if (asked) runs.Ask(Simple().run, "", 20'000, false, true, now);
    const Runs::Round round = runs.Begin();
    runs.Apply(PodOf(Simple()), now);  // before the answer to its creation
    EXPECT_TRUE(runs.Listed(round, now).empty());
    EXPECT_EQ(runs.List().at(0).state, RunState::kStarting);
    EXPECT_EQ(runs.Listed(runs.Begin(), now).size(), 1U) << "a later list tells";
  }
}

TEST(KubernetesRuns, AListTellsWhatBecameOfACreationWithoutAnAnswer) {
  const conf::TimePoint now;
  for (const bool told_to_stop : {false, true}) {
    Runs runs("gw", {20'000, 20'010});
    runs.Ask(Simple().run, "", 20'000, false, true, now);
    EXPECT_TRUE(runs.Listed(runs.Begin(), now).empty()) << "it is under way";
    const Runs::Round older = runs.Begin();
    runs.Unanswered("chat-small-1");
    EXPECT_TRUE(runs.AnyUnanswered());
    if (told_to_stop) runs.ToldToStop("chat-small-1", now);
    EXPECT_TRUE(runs.Listed(older, now).empty());
    ASSERT_EQ(runs.List().size(), 1U);
    EXPECT_EQ(runs.Find("chat-small-1")->half_started(), !told_to_stop);
    EXPECT_EQ(runs.Listed(runs.Begin(), now).size(), 1U);
    EXPECT_FALSE(runs.AnyUnanswered());
    if (told_to_stop) {
      EXPECT_EQ(runs.List().at(0).state, RunState::kEnded);
    } else {
      EXPECT_TRUE(runs.List().empty()) << "it is asked for anew";
    }
  }
}

TEST(KubernetesRuns, ARefusalAfterACreationWithoutAnAnswerTellsNothing) {
  Runs runs("gw", {20'000, 20'010});
  const conf::TimePoint now;
  runs.Ask(Simple().run, "", 20'000, false, true, now);
  runs.Unanswered("chat-small-1");
  runs.AskAgain("chat-small-1");
  runs.Refused("chat-small-1");
  ASSERT_EQ(runs.List().size(), 1U);
  runs.Apply(PodOf(Simple()), now);
  EXPECT_FALSE(runs.Find("chat-small-1")->half_started()) << "the first one was carried out";
}

TEST(KubernetesRuns, AForgottenPodHoldsItsDevicesUntilItIsGone) {
  Runs runs("gw", {20'000, 20'010});
  const conf::TimePoint now;
  const Pod pod = PodOf(Simple());
  runs.Apply(pod, now);
  runs.End(pod.name, "its node is lost", now);
  runs.Forget(pod.name);
  runs.Apply(pod, now);
  EXPECT_TRUE(runs.List().empty());
  EXPECT_EQ(runs.leftovers().size(), 1U);
  runs.Deleted(pod, now);
  EXPECT_TRUE(runs.leftovers().empty());
}

TEST(KubernetesCluster, HealthIsWhatTheNodeSays) {
  std::map<std::string, Node> nodes;
  const auto page = plugins::kubernetes::ReadPage(Recorded("nodes.json"), [&](const json& object) {
    if (auto node = ReadNode(object)) nodes[node->name] = *node;
  });
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(HealthOf(nodes.at("node-1"), {}), scheduler::Health::kHealthy);
  EXPECT_EQ(HealthOf(nodes.at("node-lost"), {}), scheduler::Health::kQuarantined);
  EXPECT_EQ(HealthOf(nodes.at("node-cordoned"), {}), scheduler::Health::kDraining);
  EXPECT_EQ(HealthOf(nodes.at("node-tainted"), {}), scheduler::Health::kDraining);
  EXPECT_EQ(HealthOf(nodes.at("node-tainted"), {{.exists = true}}), scheduler::Health::kHealthy);
  const SharedCluster shared = Share(nodes, {{"node-1", {.devices = 3}}},
                                     {{"node-1", {"h100", 8}}, {"absent", {"h100", 8}}}, DeviceTable({}), {});
  ASSERT_EQ(shared.nodes.size(), 1U);
  EXPECT_EQ(shared.nodes[0].kind, "h100");
  EXPECT_EQ(shared.nodes[0].devices, 8U);
  EXPECT_EQ(shared.nodes[0].taken, 3U);
  EXPECT_EQ(shared.left_out.size(), 1U);
}

TEST(KubernetesCluster, APodHoldsTheCpuAndMemoryThatItsContainersAskFor) {
  const auto container = [](const char* cpu, const char* memory) {
    return json{{"resources", {{"requests", {{"cpu", cpu}, {"memory", memory}}}}}};
  };
  json sidecar = container("500m", "1Gi");
  sidecar["restartPolicy"] = "Always";
  json object = {{"metadata", {{"name", "a"}}}, {"spec", {{"nodeName", "node-1"}}}};
  json& spec = object["spec"];
  const auto host = [&] { return ReadPod(object)->host; };
  EXPECT_EQ(host(), scheduler::HostAmounts());
  spec["containers"] = json::array({container("2", "1Gi"), container("1500m", "1000001")});
  EXPECT_EQ(host(), (scheduler::HostAmounts{3500, 1025}));
  spec["initContainers"] = json::array({container("4", "1Mi")});
  EXPECT_EQ(host(), (scheduler::HostAmounts{4000, 1025})) << "it runs before them";
  spec["initContainers"] = json::array({sidecar, container("4", "1Mi")});
  EXPECT_EQ(host(), (scheduler::HostAmounts{4500, 2049})) << "a sidecar runs beside all that come later";
  spec["overhead"] = {{"cpu", "250m"}};
  EXPECT_EQ(host(), (scheduler::HostAmounts{4750, 2049}));

  const DeviceTable table({});
  Taken sum = table.TakenBy(*ReadPod(object));
  sum.Add(table.TakenBy({.devices = {{"nvidia.com/gpu", 1}}, .host = {1000, 1}}));
  Node node;
  node.cpu_milli = 8000;
  node.memory_mib = 4096;
  const SharedCluster shared = Share({{"node-1", node}}, {{"node-1", sum}}, {{"node-1", {}}}, table, {});
  EXPECT_EQ(shared.nodes.at(0).host, (SharedHost{.has = {8000, 4096}, .taken = {5750, 2050}}));
  sum.Remove(table.TakenBy({.devices = {{"nvidia.com/gpu", 1}}, .host = {1000, 1}}));
  EXPECT_EQ(sum, table.TakenBy(*ReadPod(object)));
}

TEST(KubernetesCluster, TaintsAreToleratedAsKubernetesDoes) {
  Node node;
  node.ready = "True";
  node.taints = {{"pool", "training", "NoSchedule"}};
  const auto health = [&](const char* tolerations) {
    return HealthOf(node, TolerationsOf({{"tolerations", json::parse(tolerations)}}));
  };
  for (const char* tolerated :
       {R"([{"operator":"Exists"}])", R"([{"key":"pool","operator":"Exists"}])",
        R"([{"key":"pool","value":"training"}])",
        R"([{"key":"pool","operator":"Equal","value":"training","effect":"NoSchedule"}])"}) {
    EXPECT_EQ(health(tolerated), scheduler::Health::kHealthy) << tolerated;
  }
  for (const char* not_tolerated :
       {R"([])", R"([{"key":"pool"}])", R"([{"key":"pool","value":"serving"}])", R"([{"value":"training"}])",
        R"([{"key":"pool","operator":"Exists","effect":"NoExecute"}])",
        R"([{"key":"pool","operator":"Unknown","value":"training"}])"}) {
    EXPECT_EQ(health(not_tolerated), scheduler::Health::kDraining) << not_tolerated;
  }
  EXPECT_EQ(WhyNot(node, {}), "it has the taint pool=training:NoSchedule");
}

TEST(KubernetesCluster, InstancesOfOthersFillDevicesTogether) {
  Node node;
  node.name = "a";
  node.ready = "True";
  node.devices = {{"nvidia.com/mig-1g.10gb", 56}};
  const DeviceTable table({});
  const auto taken = [&](uint32_t pods, uint32_t each) {
    Taken sum;
    for (uint32_t i = 0; i < pods; ++i)
      sum.Add(table.TakenBy({.devices = {{"nvidia.com/mig-1g.10gb", each}}}));
    const SharedCluster shared = Share({{"a", node}}, {{"a", sum}}, {{"a", {"h100-mig", 8}}}, table, {});
    return shared.nodes.at(0).taken;
  };
  EXPECT_EQ(taken(0, 1), 0U);
  EXPECT_EQ(taken(1, 1), 1U);
  EXPECT_EQ(taken(7, 1), 1U);
  EXPECT_EQ(taken(4, 2), 2U);
  EXPECT_EQ(taken(56, 1), 8U);
  // A device that is cut is none of the whole ones.
  node.devices = {{"nvidia.com/gpu", 6}, {"nvidia.com/mig-1g.10gb", 14}};
  EXPECT_EQ(taken(3, 1), 0U);
}

TEST(KubernetesAnswers, QuantitiesAreNumbersWithSuffixes) {
  EXPECT_EQ(ReadMilli("64"), 64'000);
  EXPECT_EQ(ReadMilli("2500m"), 2500);
  EXPECT_EQ(ReadBytes("4Gi"), int64_t{4} << 30);
  EXPECT_FALSE(ReadBytes("much"));
}

TEST(KubernetesWatchLines, AnExpiredVersionIsOutOfRange) {
  const auto line = plugins::kubernetes::ReadWatchLine(Recorded("watch_expired.jsonl"));
  EXPECT_TRUE(absl::IsOutOfRange(line.status())) << line.status();
}

}  // namespace
}  // namespace plugins::launchers::kubernetes
