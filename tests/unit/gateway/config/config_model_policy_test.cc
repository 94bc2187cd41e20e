// Policy files with replicas, and the section that names them: what is read, what does not fit together, and
// everything at once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "gateway/config/model_policy.h"
#include "tests/support/shipped.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;

constexpr std::string_view kHead = "model: small\nreplicas: {max: 4}\nscaling: {policy: demand}\n";
constexpr std::string_view kReplica = "replica: {engine: vllm, command: [serve]}\n";

std::string Policy(std::string_view more = "") {
  return std::string(kHead) + std::string(kReplica) + std::string(more);
}

using Files = std::map<std::string, std::string>;

constexpr std::string_view kModels =
    "[{name: small}, {name: other, endpoints: [{url: http://h:1, engine: vllm}]}]";

LoadResult Load(const Files& files, const std::string& scaling, std::string_view models = kModels,
                const MachineProbe& probe = ProbeNothing) {
  conf::Sources sources = FakeSources();
  sources.file = [&files](const std::string& path) -> absl::StatusOr<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return absl::NotFoundError("cannot read \"" + path + "\"");
    return found->second;
  };
  sources.folder = [&files](const std::string& path) -> absl::StatusOr<std::vector<std::string>> {
    std::vector<std::string> names;
    for (const auto& [name, text] : files) {
      if (name.starts_with(path + "/")) names.push_back(name.substr(path.size() + 1));
    }
    return names;
  };
  return ParseConfig(With({{"models", std::string(models)}, {"scaling", scaling}}), "t.yaml", sources, probe);
}

std::vector<std::string> Texts(const std::vector<conf::Problem>& problems) {
  std::vector<std::string> texts;
  for (const conf::Problem& problem : problems) texts.push_back(conf::ToString(problem));
  return texts;
}

std::vector<std::string> PolicyProblems(const std::string& text) {
  return Texts(ReadModelPolicy(text, "p.yaml", FakeSources()).problems);
}

TEST(ModelPolicy, AReplicaThatMaySleepKeepsTheMemoryForItFromTheStart) {
  const auto loaded = ReadModelPolicy(
      Policy("idle: {sleep_after: 2m, host_memory: 20GiB}\nplacement: {devices: [{kind: h100}], cpu: 8}\n"),
      "p.yaml", FakeSources());
  ASSERT_TRUE(loaded.value);
  const scheduler::autoscale::ScalingPolicy& scaling = loaded.value->scaling;
  EXPECT_EQ(scaling.scale_to_zero_after, std::chrono::minutes(2)) << "from then on none is awake";
  EXPECT_EQ(scaling.sleep->stop_after, std::chrono::hours(1));
  EXPECT_EQ(AskOf(*loaded.value).roles[0].ask.memory_mib, 20 * 1024);
  const scheduler::Ask asleep = AskAsleep(*loaded.value).roles[0].ask;
  EXPECT_THAT(asleep.devices, IsEmpty());
  EXPECT_EQ(asleep.cpu_milli, 0);
  EXPECT_EQ(asleep.memory_mib, 20 * 1024);
}

TEST(ModelPolicy, SleepThatHasNoEffectOrCannotBeIsRefused) {
  EXPECT_THAT(PolicyProblems(Policy("idle: {sleep_after: 2m}\n")),
              ElementsAre(AllOf(HasSubstr("/idle/sleep_after"), HasSubstr("give host_memory"))));
  EXPECT_THAT(PolicyProblems(Policy("idle: {sleep_after: 2m, level: 2, scale_to_zero_after: 1m}\n")),
              ElementsAre(AllOf(HasSubstr("/idle/scale_to_zero_after"), HasSubstr("remove one of the two"))));
  EXPECT_THAT(PolicyProblems(Policy("idle: {min_awake: 5s}\n")),
              ElementsAre(HasSubstr("has no effect without sleep_after")));
  EXPECT_THAT(PolicyProblems(Policy("idle: {sleep_after: 2m, level: 3}\n")),
              ElementsAre(HasSubstr("/idle/level")));
  const std::string head(kHead);
  EXPECT_THAT(PolicyProblems(head + "replica: {engine: llamacpp, command: [serve]}\n"
                                    "idle: {sleep_after: 2m, level: 2}\n"),
              ElementsAre(HasSubstr("llamacpp cannot sleep; vllm and sglang can")));
  EXPECT_THAT(PolicyProblems(head + "replica: {engine: sglang, command: [python3, serve.py]}\n"
                                    "idle: {sleep_after: 2m, level: 2}\n"),
              ElementsAre(HasSubstr("sglang keeps its weights in host memory")));
}

TEST(ModelPolicy, ARolloutNamesAnotherVersionAndHowItTakesOver) {
  const std::string rollout = "rollout: {version: v2, replica: {engine: vllm, command: [serve, new]}";
  const auto loaded =
      ReadModelPolicy(Policy(rollout + ", steps: [10, 100], hold: 1m, bounds: {ttft: 1.5}}\nversion: v1\n"),
                      "p.yaml", FakeSources());
  ASSERT_TRUE(loaded.value) << testing::PrintToString(Texts(loaded.problems));
  EXPECT_EQ(loaded.value->version, "v1");
  const config::Rollout& read = *loaded.value->rollout;
  EXPECT_EQ(read.version, "v2");
  EXPECT_THAT(read.replica.command, ElementsAre("serve", "new"));
  EXPECT_EQ(read.replica.model, loaded.value->model());
  EXPECT_THAT(read.steps.percents, ElementsAre(10, 100));
  EXPECT_EQ(read.steps.bounds.ttft, 1.5);
  EXPECT_EQ(read.steps.bounds.errors, 0.01);
  EXPECT_EQ(read.steps.patience, std::chrono::hours(1));

  EXPECT_THAT(PolicyProblems(Policy(rollout + ", steps: [50, 20, 100]}\n")),
              ElementsAre(AllOf(HasSubstr("/rollout/steps"), HasSubstr("must rise from above 0 to 100"))));
  EXPECT_THAT(PolicyProblems(Policy(rollout + ", steps: [5, 50]}\n")),
              ElementsAre(HasSubstr("/rollout/steps")));
  EXPECT_THAT(PolicyProblems(Policy(rollout + ", hold: 2h}\n")),
              ElementsAre(AllOf(HasSubstr("/rollout/patience"), HasSubstr("must be longer than hold"))));
  EXPECT_THAT(PolicyProblems(Policy(rollout + "}\nversion: v2\n")),
              ElementsAre(HasSubstr("names the version that is in force")));
  EXPECT_THAT(
      PolicyProblems(
          Policy("rollout: {version: v2, replica: {engine: vllm, command: [serve, '{weights}']}}\n")),
      ElementsAre(AllOf(HasSubstr("/rollout/replica/command"), HasSubstr("the policy has no weights"))));
}

TEST(ModelPolicy, SaysHowAReplicaIsStarted) {
  const auto loaded = ReadModelPolicy(
      std::string(kHead) +
          "cold_start: {hold: 1m, heartbeat: 5s}\n"
          "placement: {devices: [{kind: h100, count: 2}, {kind: ascend-910b}], cpu: 8, memory: 64GiB, "
          "priority: critical, queue: prod, spread: zone, may_preempt: [batch], require: {zone: [a, b]}, "
          "isolation: node, resources: {vllm-plus: 2}}\n"
          "idle: {standby: 1}\n"
          "replica: {engine: sglang, command: [run, \"{port}\"], env: {A: b}, secret_env: {S: env:S}, "
          "directory: /srv, model: up, preset: demo, ready: {path: /ready, timeout: 1m}, drain: 30s}\n",
      "p.yaml", FakeSources());
  ASSERT_THAT(Texts(loaded.problems), IsEmpty());
  const ModelPolicy& policy = *loaded.value;
  EXPECT_EQ(policy.scaling.heartbeat, std::chrono::seconds(5));
  ASSERT_EQ(policy.placement.devices.size(), 2u);
  EXPECT_EQ(policy.placement.devices[1].ask.count, 1u);
  EXPECT_EQ(policy.placement.cpu_milli, 8000);
  EXPECT_EQ(policy.placement.memory_mib, 64 * 1024);
  EXPECT_EQ(policy.placement.priority, Rank::kCritical);
  const scheduler::Job ask = AskOf(policy);
  EXPECT_TRUE(ask.spread);
  EXPECT_EQ(ask.spread_over, "zone");
  ASSERT_EQ(ask.roles[0].ask.require.size(), 1u);
  EXPECT_THAT(ask.roles[0].ask.require[0].values, ElementsAre("a", "b"));
  EXPECT_EQ(ask.roles[0].ask.isolation, scheduler::Isolation::kNode);
  ASSERT_EQ(ask.resources.size(), 1u);
  EXPECT_EQ(ask.resources[0].count, 2u);
  EXPECT_THAT(AskAsleep(policy).resources, IsEmpty());
  EXPECT_THAT(policy.placement.may_preempt, ElementsAre(Victim::kBatch));
  EXPECT_EQ(policy.scaling.standby, 1u);
  EXPECT_EQ(policy.replica->engine, Engine::kSglang);
  EXPECT_THAT(policy.replica->command, ElementsAre("run", "{port}"));
  EXPECT_EQ(policy.replica->secret_env.at("S").Reveal(), kSecret);
  EXPECT_EQ(policy.replica->ready.timeout, std::chrono::minutes(1));
  EXPECT_EQ(policy.replica->drain, std::chrono::seconds(30));
}

TEST(ModelPolicy, AReplicasEngineDemandsAKeyUnlessItCannot) {
  const auto key_of = [](const std::string& engine, const std::string& more = "") {
    const auto loaded = ReadModelPolicy(
        std::string(kHead) + fmt::format("replica: {{engine: {}, command: [serve]{}}}\n", engine, more),
        "p.yaml", FakeSources());
    EXPECT_THAT(Texts(loaded.problems), IsEmpty());
    return loaded.value ? loaded.value->replica->api_key : ReplicaKey::kNone;
  };
  for (const char* const engine : {"vllm", "sglang", "llamacpp", "tgi"})
    EXPECT_EQ(key_of(engine), ReplicaKey::kGenerated) << engine;
  EXPECT_EQ(key_of("trtllm"), ReplicaKey::kNone);
  EXPECT_EQ(key_of("vllm", ", api_key: none"), ReplicaKey::kNone);
  EXPECT_EQ(key_of("vllm", ", api_key: none, env: {VLLM_API_KEY: mine}"), ReplicaKey::kNone);
  for (const auto& [replica, where, what] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"engine: trtllm, command: [serve], api_key: generated", "p.yaml:/replica/api_key",
            "cannot demand a key"},
           {"engine: vllm, command: [serve], api_key: mine", "p.yaml:/replica/api_key", "none"},
           {"engine: vllm, command: [serve], env: {VLLM_API_KEY: x}", "p.yaml:/replica/env",
            "VLLM_API_KEY is set by"},
           {"engine: llamacpp, command: [serve], secret_env: {LLAMA_API_KEY: env:S}",
            "p.yaml:/replica/secret_env", "LLAMA_API_KEY is set by"},
           {"engine: vllm, command: [serve, --api-key, x]", "p.yaml:/replica/command",
            "finds its key in VLLM_API_KEY"},
           {"engine: sglang, command: [python3, -m, sglang.launch_server]", "p.yaml:/replica/command",
            "hands TIDEGATE_REPLICA_KEY over"},
           {"engine: sglang, command: [/opt/sglang, serve, --model-path, x]", "p.yaml:/replica/command",
            "hands TIDEGATE_REPLICA_KEY over"}}) {
    EXPECT_THAT(PolicyProblems(std::string(kHead) + "replica: {" + replica + "}\n"),
                testing::Contains(AllOf(HasSubstr(where), HasSubstr(what))))
        << replica;
  }
}

TEST(ModelPolicy, OnePortForSeveralReplicasIsRefused) {
  const auto problems = [](const std::string& max, const std::string& command) {
    return PolicyProblems(fmt::format(
        "model: m\nreplicas: {{max: {}}}\nscaling: {{policy: demand}}\nreplica: {{engine: vllm, command: "
        "[{}]}}\n",
        max, command));
  };
  for (const char* const command : {"serve, --port, 8000", "serve, --port, \"8000\"", "serve, --port=8000"}) {
    EXPECT_THAT(
        problems("2", command),
        ElementsAre(AllOf(HasSubstr("p.yaml:/replica/command/"), HasSubstr("(line 4)"),
                          HasSubstr("is the same port for each of up to 2 replicas; write \"{port}\""))))
        << command;
    EXPECT_THAT(problems("1", command), IsEmpty()) << command;
  }
  EXPECT_THAT(problems("2", "serve, --port, \"{port}\""), IsEmpty());
}

TEST(ModelPolicy, AReplicaMayServeOverTlsWhoseFilesAreCheckedBefore) {
  const std::string tls =
      std::string(kHead) +
      "replica: {engine: vllm, command: [serve], tls: {ca: ca.pem, server_name: replicas}}\n";
  const auto loaded = ReadModelPolicy(tls, "p.yaml", FakeSources());
  ASSERT_THAT(Texts(loaded.problems), IsEmpty());
  EXPECT_EQ(loaded.value->replica->tls->server_name, "replicas");
  EXPECT_THAT(Texts(Load({{"p.yaml", tls}, {"ca.pem", "no certificate"}}, "{policies: p.yaml}").problems),
              testing::Contains(AllOf(HasSubstr("p.yaml:/replica/tls/ca"), HasSubstr("ca.pem"))));
  EXPECT_THAT(Texts(Load({{"p.yaml", tls}}, "{policies: p.yaml}").problems),
              testing::Contains(HasSubstr("p.yaml:/replica/tls/ca")));
}

constexpr std::string_view kGangReplica =
    "replica: {engine: vllm, command: [serve, --at, \"{leader}:{leader_port}\"], "
    "worker_command: [serve, --headless]}\n";

TEST(ModelPolicy, AReplicaMayHaveSeveralMembersNearEachOther) {
  const auto loaded =
      ReadModelPolicy(std::string(kHead) +
                          "placement: {members: 2, devices: [{kind: h100, count: 8}], cpu: 8, spread: leaf, "
                          "topology: {level: leaf, required: true}}\n" +
                          std::string(kGangReplica),
                      "p.yaml", FakeSources());
  ASSERT_THAT(Texts(loaded.problems), IsEmpty());
  EXPECT_EQ(loaded.value->placement.members, 2u);
  EXPECT_THAT(loaded.value->replica->worker_command, ElementsAre("serve", "--headless"));
  const scheduler::Job job = AskOf(*loaded.value);
  ASSERT_EQ(job.roles.size(), 1u);
  EXPECT_EQ(job.roles[0].count, 2u);
  EXPECT_EQ(job.roles[0].min_count, 2u) << "all of them or none";
  EXPECT_EQ(job.roles[0].ask.devices[0].count, 8u) << "of each member";
  EXPECT_EQ(job.roles[0].ask.cpu_milli, 8000);
  EXPECT_EQ(job.topology.level, "leaf");
  EXPECT_TRUE(job.topology.required);
  EXPECT_TRUE(job.spread);
  EXPECT_EQ(job.work, scheduler::WorkClass::kInference);

  const auto single = ReadModelPolicy(Policy(), "p.yaml", FakeSources());
  EXPECT_EQ(AskOf(*single.value).roles[0].count, 1u);
}

TEST(ModelPolicy, AKeyThatDoesNotSuitTheNumberOfMembersIsRefusedAtItsPlace) {
  const std::string gang(kGangReplica);
  const std::string alone(kReplica);
  for (const auto& [text, where, what] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"placement: {members: 0}\n" + alone, "p.yaml:/placement/members", "between 1 and 64"},
           {"placement: {members: 65}\n" + gang, "p.yaml:/placement/members", "between 1 and 64"},
           {"placement: {members: two}\n" + gang, "p.yaml:/placement/members", "number"},
           {"placement: {topology: {level: leaf}}\n" + alone, "p.yaml:/placement/topology", "set members"},
           {"placement: {members: 2, topology: {required: true}}\n" + gang, "p.yaml:/placement/topology",
            "level"},
           {"placement: {members: 2, topology: {level: leaf, required: true, wait: 5m}}\n" + gang,
            "p.yaml:/placement/topology/wait", "no effect where the level is required"},
           {"placement: {members: 2, spread: leaf}\n" + gang, "p.yaml:/placement/spread", "required: true"},
           {"replica: {engine: vllm, command: [serve], worker_command: [serve]}\n",
            "p.yaml:/replica/worker_command", "set placement.members"},
           {gang, "p.yaml:/replica/command/2", "names the leader"},
           {"placement: {members: 2}\nreplica: {engine: vllm, command: [serve], worker_command: [\"\"]}\n",
            "p.yaml:/replica/worker_command", "begin with a program"},
           {"placement: {members: 2}\nreplica: {engine: vllm, command: [serve], env: {RANK: \"0\"}}\n",
            "p.yaml:/replica/env/RANK", "set by Tidegate for each member"},
           {"placement: {members: 2}\nreplica: {engine: vllm, command: [serve], "
            "secret_env: {MASTER_ADDR: env:S}}\n",
            "p.yaml:/replica/secret_env/MASTER_ADDR", "set by Tidegate for each member"}}) {
    EXPECT_THAT(PolicyProblems(std::string(kHead) + text),
                testing::Contains(AllOf(testing::StartsWith(where), HasSubstr(what))))
        << text;
  }
}

TEST(ModelPolicy, WhatItDoesNotKnowIsRefusedAndNotIgnored) {
  for (const char* more : {"placement: {isolation: rack}", "placement: {may_preempt: [inference]}",
                           "placement: {affinity: leaf}", "idle: {stand_by: 1}"}) {
    EXPECT_THAT(PolicyProblems(Policy(more)), ElementsAre(HasSubstr("unknown"))) << more;
  }
  EXPECT_THAT(PolicyProblems(Policy("idle: {standby: 50}")),
              ElementsAre(HasSubstr("at most replicas.max, 4")));
  EXPECT_THAT(PolicyProblems(Policy("idle: {standby: 0}")), ElementsAre(HasSubstr("/idle/standby")));
}

TEST(ModelPolicy, ReportsAllProblemsAtOnceWithoutSecrets) {
  const auto problems = PolicyProblems(
      std::string(kHead) +
      "placement: {devices: [{kind: h100, count: 0}], priority: urgent}\n"
      "replica: {engine: openai, command: [], env: {\"1A\": b}, secret_env: {S: hunter2}, preset: llama, "
      "ready: {path: health, timeout: 0s}, drain: 0s}\n");
  EXPECT_THAT(problems,
              IsSupersetOf({HasSubstr("/placement/devices/0/count"), HasSubstr("/placement/priority"),
                            HasSubstr("/replica/engine"), HasSubstr("/replica/command"),
                            HasSubstr("/replica/env"), HasSubstr("/replica/secret_env/S"),
                            HasSubstr("/replica/preset"), HasSubstr("/replica/ready/path"),
                            HasSubstr("/replica/ready/timeout"), HasSubstr("/replica/drain")}));
  for (const std::string& problem : problems) EXPECT_THAT(problem, testing::Not(HasSubstr("hunter2")));
}

TEST(Scaling, TakesWhatTheMachineIsFoundToHaveItsPartitionsToo) {
  using plugins::devices::Device;
  const MachineProbe probe = []() -> absl::StatusOr<plugins::devices::MachineCluster> {
    const Device whole{.kind = "a100", .memory_mib = 80 * 1024, .visible = "GPU-1"};
    Device cut{.kind = "a100", .memory_mib = 80 * 1024, .visible = "GPU-2"};
    cut.cut = true;
    cut.instances = {{.profile = "1g.10gb", .start = 6, .visible = "MIG-1"}};
    return plugins::devices::MakeMachineCluster({.name = "box", .cpu_milli = 8000, .memory_mib = 1 << 16},
                                                {whole, cut});
  };
  const std::string policy =
      Policy("placement: {devices: [{kind: a100-cut, profile: 1g.10gb}, {kind: a100}]}\n");
  const LoadResult found = Load({{"p.yaml", policy}}, "{policies: p.yaml, cluster: probe}", kModels, probe);
  ASSERT_THAT(Texts(found.problems), IsEmpty());
  ASSERT_TRUE(found.config->scaling->probed);
  EXPECT_EQ(found.config->scaling->nodes.nodes.size(), 2u);
  EXPECT_EQ(found.config->scaling->probed->nodes[1].devices[0].instances[0].visible, "MIG-1");
  EXPECT_EQ(found.config->scaling->Find("small")->placement.devices[0].ask.profile, "1g.10gb");
  EXPECT_EQ(ToJson(*found.config)["scaling"]["cluster"], "probe");
  EXPECT_THAT(
      Texts(Load({{"p.yaml", Policy()}}, "{policies: p.yaml, cluster: probe}").problems),
      ElementsAre(testing::AllOf(HasSubstr("/scaling/cluster"), HasSubstr("does not probe the machine"))));
}

TEST(Scaling, WithoutPoliciesThereAreJobsOnly) {
  EXPECT_THAT(Texts(Load({}, "{cluster: [{kind: h100, count: 8}]}",
                         "[{name: small, endpoints: [{url: http://h:1, engine: vllm}]}]")
                        .problems),
              IsEmpty());
}

TEST(Scaling, AModelNeedsEndpointsOrAPolicy) {
  const LoadResult with = Load({{"p.yaml", Policy()}}, "{policies: p.yaml}");
  EXPECT_THAT(Texts(with.problems), IsEmpty());
  ASSERT_TRUE(with.config);
  EXPECT_EQ(with.config->scaling->nodes.nodes.size(), 1u);
  EXPECT_NE(with.config->scaling->Find("small"), nullptr);
  EXPECT_EQ(with.config->scaling->Find("other"), nullptr);
  EXPECT_THAT(Problems(With({{"models", "[{name: small}]"}})),
              ElementsAre(AllOf(HasSubstr("/models/0/endpoints"), HasSubstr("is required"))));
}

TEST(Scaling, OneModelHasOneOwner) {
  const std::string policy = Policy();
  EXPECT_THAT(
      Texts(
          Load({{"d/a.yaml", policy}, {"d/b.yaml", policy}, {"d/notes.txt", ""}}, "{policies: d}").problems),
      ElementsAre(AllOf(HasSubstr("d/b.yaml:/model"), HasSubstr("small already has the policy d/a.yaml"))));
}

TEST(Scaling, AContradictionIsReportedWithItsFile) {
  const std::string of_nobody = "model: smal\nreplicas: {max: 1}\nscaling: {policy: demand}\n" +
                                std::string("placement: {devices: [{kind: b200}], queue: nowhere}\n");
  EXPECT_THAT(
      Texts(Load({{"a.yaml", Policy()}, {"b.yaml", of_nobody}},
                 "{policies: [a.yaml, b.yaml, c.yaml], cluster: [{kind: h100, count: 8}]}")
                .problems),
      IsSupersetOf({AllOf(HasSubstr("b.yaml:/model"), HasSubstr("did you mean \"small\"?")),
                    AllOf(HasSubstr("b.yaml:/placement/devices/0/kind"), HasSubstr("expected one of h100")),
                    AllOf(HasSubstr("b.yaml:/placement/queue"), HasSubstr("default")),
                    AllOf(HasSubstr("b.yaml:/replica"), HasSubstr("is required")),
                    AllOf(HasSubstr("t.yaml:/scaling/policies/2"), HasSubstr("c.yaml"))}));
}

TEST(Scaling, AReplicaThatTheClusterCanNeverHoldIsReportedAtTheLoad) {
  const std::string cluster =
      "devices: [{name: h100, memory: 80GiB}]\n"
      "types: [{name: box, cpu: 64, memory: 512GiB, device: h100, count: 8}]\n"
      "nodes: [{name: \"n{1..6}\", type: box, domain: \"leaf-{1..2}\"}]\n"
      "fabric:\n  levels: [leaf, all]\n"
      "  domains: [{name: \"leaf-{1..2}\", level: leaf, parent: all}, {name: all, level: all}]\n";
  const auto problems = [&](const std::string& placement) {
    return Texts(Load({{"p.yaml", std::string(kHead) + "placement: " + placement +
                                      "\nreplica: {engine: vllm, command: [serve]}\n"},
                       {"nodes.yaml", cluster}},
                      "{policies: p.yaml, cluster: nodes.yaml}")
                     .problems);
  };
  EXPECT_THAT(
      problems("{members: 3, devices: [{kind: h100, count: 8}], topology: {level: leaf, required: true}}"),
      IsEmpty());
  EXPECT_THAT(problems("{members: 6, devices: [{count: 8}], topology: {level: leaf}}"), IsEmpty())
      << "it only prefers one leaf";
  EXPECT_THAT(problems("{members: 4, devices: [{count: 8}], topology: {level: leaf, required: true}}"),
              ElementsAre(AllOf(HasSubstr("p.yaml:/placement/members"), HasSubstr("in one leaf"),
                                HasSubstr("at most 3 do"))));
  EXPECT_THAT(problems("{members: 7, devices: [{count: 8}]}"),
              ElementsAre(AllOf(HasSubstr("p.yaml:/placement/members"), HasSubstr("in the cluster"),
                                HasSubstr("at most 6 do"))));
  EXPECT_THAT(problems("{members: 2, devices: [{kind: h100, count: 16}]}"),
              ElementsAre(AllOf(HasSubstr("p.yaml:/placement/devices"), HasSubstr("16 h100"))));
  EXPECT_THAT(problems("{members: 2, devices: [{count: 8}], topology: {level: rack}}"),
              ElementsAre(AllOf(HasSubstr("p.yaml:/placement/topology/level"), HasSubstr("\"rack\""),
                                HasSubstr("node, leaf, all"))));
}

TEST(Scaling, LabelsAndResourcesThatTheClusterDoesNotHaveAreToldAtTheLoad) {
  const std::string cluster =
      "devices: [{name: h100}]\n"
      "types: [{name: box, cpu: 64, memory: 512GiB, device: h100, count: 8}, {name: cpu, cpu: 64, memory: "
      "1GiB}]\n"
      "nodes: [{name: n1, type: box, labels: {zone: a}}, {name: n2, type: cpu, labels: {zone: b}}]\n"
      "resources: [{name: matlab, count: 2}]\n";
  const auto problems = [&](const std::string& placement, const std::string& scaling = {}) {
    return Texts(Load({{"p.yaml", std::string(kHead) + "placement: " + placement +
                                      "\nreplica: {engine: vllm, command: [serve]}\n"},
                       {"nodes.yaml", cluster}},
                      "{policies: p.yaml, cluster: nodes.yaml" + scaling + "}")
                     .problems);
  };
  EXPECT_THAT(problems("{devices: [{kind: h100}], require: {zone: a}, resources: {matlab: 2, seat: 1}}",
                       ", resources: {seat: 1}"),
              IsEmpty());
  EXPECT_THAT(problems("{require: {zon: a}}"), ElementsAre(AllOf(HasSubstr("p.yaml:/placement/require/zon"),
                                                                 HasSubstr("did you mean \"zone\"?"))));
  EXPECT_THAT(
      problems("{devices: [{kind: h100}], avoid: {zone: a}}"),
      ElementsAre(AllOf(HasSubstr("p.yaml:/placement/avoid"), HasSubstr("no node that its labels allow"))));
  EXPECT_THAT(problems("{resources: {matlab: 3}}"),
              ElementsAre(AllOf(HasSubstr("p.yaml:/placement/resources/matlab"), HasSubstr("has 2"))));
  EXPECT_THAT(problems("{}", ", resources: {matlab: 1}"),
              ElementsAre(AllOf(HasSubstr("/scaling/resources/matlab"), HasSubstr("keep one of the two"))));
  EXPECT_THAT(problems("{}", ", data_sets: [{name: a, path: /m, digest: sha256:1}]"),
              IsSupersetOf({HasSubstr("/scaling/data_sets")}));
}

TEST(Scaling, TheShippedPolicyOfTwoNodesFitsTheShippedCluster) {
  const LoadResult loaded =
      Load({{"p.yaml", tests::ReadShipped("policies/scaling/two-nodes.yaml")},
            {"nodes.yaml", tests::ReadShipped("clusters/h100-2048.yaml")}},
           "{policies: p.yaml, cluster: nodes.yaml}",
           "[{name: small, endpoints: [{url: http://h:1, engine: vllm}]}, {name: llama-3.1-405b}]");
  ASSERT_THAT(Texts(loaded.problems), IsEmpty());
  EXPECT_EQ(loaded.config->scaling->Find("llama-3.1-405b")->placement.members, 2u);
}

TEST(Scaling, AWrongSectionIsRefused) {
  const Files files = {{"p.yaml", Policy()}};
  for (const auto& [section, where] : std::map<std::string, std::string>{
           {"{policies: p.yaml, ports: 30000-20000}", "/scaling/ports"},
           {"{policies: p.yaml, ports: 80-90}", "/scaling/ports"},
           {"{policies: p.yaml, launcher: nomad}", "/scaling/launcher"},
           {"{policies: p.yaml, launcher: kubernetes}", "/scaling/kubernetes"},
           {"{policies: p.yaml, on_exit: leave}", "/scaling/on_exit"},
           {"{policies: p.yaml, cluster: [{kind: a}, {kind: a}]}", "/scaling/cluster"},
           {"{policies: p.yaml, cluster: {kind: a}}", "/scaling/cluster"},
           {"{policies: []}", "/scaling/policies"}}) {
    EXPECT_THAT(Texts(Load(files, section).problems), testing::Contains(HasSubstr(where))) << section;
  }
}

TEST(Scaling, ThePolicyIsPartOfTheHash) {
  const auto hash = [](const std::string& policy) {
    const Files files = {{"p.yaml", policy}};
    return Hash(*Load(files, "{policies: p.yaml}").config);
  };
  EXPECT_EQ(hash(Policy()), hash(Policy()));
  EXPECT_NE(hash(Policy()), hash(Policy("slo: {ttft: 1s}\n")));
}

}  // namespace
}  // namespace gateway::config
