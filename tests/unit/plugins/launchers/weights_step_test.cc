// The step for weights before a run's command, as each launcher writes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/kubernetes/manifest.h"
#include "plugins/launchers/kubernetes/runs.h"
#include "plugins/launchers/placeholders.h"
#include "plugins/launchers/run_start.h"
#include "plugins/launchers/slurm/submission.h"
#include "plugins/weights/order.h"

namespace plugins::launchers {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

const std::vector<devices::LocalNode> kNodes = {{.name = "n1", .devices = {}}};

RunSpec SpecWithWeights() {
  RunSpec run;
  run.id = "r-chat-1";
  run.owner = "chat";
  run.grant.node = "n1";
  run.command = {"vllm", "serve", "{weights}"};
  run.env = {{"TRITON_CACHE_DIR", "{compile_cache}/triton"}};
  run.image = "vllm:1";
  run.weights = WeightsStep{.order = "{\"secret\":1}",
                            .store = "/store",
                            .folder = "/store/sha256-a",
                            .digest = kDigest,
                            .cache = "/store/cache-k",
                            .cache_key = "k",
                            .program = "/opt/tidegate",
                            .image = "tidegate:1",
                            .claim = {}};
  return run;
}

TEST(WeightsStep, StandsBeforeTheCommand) {
  RunSpec run = SpecWithWeights();
  EXPECT_THAT(CommandWithStep(run, {}, "/usr/bin/tidegate"),
              ElementsAre("/opt/tidegate", "weights", "fetch", "--", "vllm", "serve", "/store/sha256-a"));
  EXPECT_EQ(FillPlaceholders("{compile_cache}/x", run, {}), "/store/cache-k/x");
  run.weights->program.clear();
  EXPECT_EQ(CommandWithStep(run, {}, "/usr/bin/tidegate").front(), "/usr/bin/tidegate");
  run.command.clear();
  EXPECT_THAT(CommandWithStep(run, {}, "/usr/bin/tidegate"),
              ElementsAre("/usr/bin/tidegate", "weights", "fetch"));
  run.weights.reset();
  EXPECT_EQ(FillPlaceholders("{weights}", run, {}), "{weights}");
  EXPECT_EQ(FillPlaceholders("{{weights}}", run, {}), "{weights}");
}

TEST(Placeholders, AnEscapedValueReachesTheProgramAsItIs) {
  RunSpec run = SpecWithWeights();
  run.id = "run-1";
  EXPECT_EQ(FillPlaceholders("{{id}} {id} {sweep.lr}", run, {}), "{id} run-1 {sweep.lr}");
  for (const std::string_view secret : {"pass{port}word", "{{id}}", "{other}", "{\"rank\":{rank}}"})
    EXPECT_EQ(FillPlaceholders(EscapePlaceholders(secret), run, {}), secret);
}

TEST(WeightsStep, OfAProcessGetsItsOrderInAVariable) {
  const auto plan = PlanRun(SpecWithWeights(), kNodes, {}, "token", nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->argv.front(), "/opt/tidegate");
  EXPECT_THAT(plan->env, testing::Contains("TIDEGATE_WEIGHTS={\"secret\":1}"));
  EXPECT_THAT(plan->record.command, ElementsAre("vllm", "serve", "{weights}"));
  RunSpec own = SpecWithWeights();
  own.env.emplace_back(weights::kOrderVariable, "mine");
  EXPECT_THAT(std::string(PlanRun(own, kNodes, {}, "token", nullptr).status().message()),
              HasSubstr("is set by the launcher"));
}

TEST(WeightsStep, OfABatchJobIsItsCommand) {
  slurm::Submission submission;
  submission.run = SpecWithWeights();
  EXPECT_EQ(slurm::FirstDefect(submission.run), "");
  const json body = json::parse(slurm::RenderBody(submission));
  EXPECT_THAT(body["script"].get<std::string>(),
              HasSubstr("'/opt/tidegate' 'weights' 'fetch' '--' 'vllm' 'serve' '/store/sha256-a'"));
  EXPECT_EQ(body["job"]["environment"]["TIDEGATE_WEIGHTS"], "{\"secret\":1}");
  submission.run.weights->program.clear();
  EXPECT_THAT(slurm::FirstDefect(submission.run), HasSubstr("scaling.weights.program"));
}

TEST(WeightsStep, OfAPodIsAnInitContainerAndASidecar) {
  kubernetes::Submission submission;
  submission.run = SpecWithWeights();
  submission.name_space = "models";
  EXPECT_EQ(kubernetes::FirstDefect(submission), "");
  const json pod = kubernetes::RenderPod(submission);
  const json& spec = pod["spec"];
  ASSERT_EQ(spec["initContainers"].size(), 2U) << spec;
  const json& fetch = spec["initContainers"][0];
  EXPECT_EQ(fetch["name"], "tidegate-weights");
  EXPECT_EQ(fetch["image"], "tidegate:1");
  EXPECT_EQ(fetch["command"], json::array({"/opt/tidegate", "weights", "fetch"}));
  EXPECT_EQ(fetch["env"][0]["valueFrom"]["secretKeyRef"]["name"], "r-chat-1-weights");
  const json& hold = spec["initContainers"][1];
  EXPECT_EQ(hold["restartPolicy"], "Always");
  EXPECT_EQ(hold["command"], json::array({"/opt/tidegate", "weights", "hold", "--store", "/store", "--digest",
                                          kDigest, "--cache", "k"}));
  EXPECT_FALSE(hold.contains("env"));
  kubernetes::Submission more = submission;
  more.run.weights->also = {"sha256:other"};
  const json both = kubernetes::RenderPod(more)["spec"]["initContainers"][1]["command"];
  EXPECT_EQ(both[7], "--digest");
  EXPECT_EQ(both[8], "sha256:other");
  const json& run = spec["containers"][0];
  EXPECT_EQ(run["command"], json::array({"vllm", "serve", "/store/sha256-a"}));
  EXPECT_EQ(run["volumeMounts"][1],
            (json{{"name", "tidegate-weights"}, {"mountPath", "/store"}, {"readOnly", true}}));
  EXPECT_EQ(run["volumeMounts"][2],
            (json{{"name", "tidegate-weights"}, {"mountPath", "/store/cache-k"}, {"subPath", "cache-k"}}));
  EXPECT_EQ(spec["volumes"][1]["hostPath"], (json{{"path", "/store"}, {"type", "DirectoryOrCreate"}}));
  // The engine's own Secret has nothing of the source's.
  EXPECT_EQ(kubernetes::RenderSecret(submission, "u")["stringData"].dump().find("secret"), std::string::npos);
  EXPECT_EQ(kubernetes::RenderWeightsSecret(submission, "u")["stringData"]["order"], "{\"secret\":1}");
}

TEST(WeightsStep, OfAPodMayHaveAVolumeOfItsOwnAndBeAllOfIt) {
  kubernetes::Submission submission;
  submission.run = SpecWithWeights();
  submission.run.weights->claim = "models";
  submission.run.command.clear();
  submission.run.image = submission.run.weights->image;
  EXPECT_EQ(kubernetes::FirstDefect(submission), "");
  const json spec = kubernetes::RenderPod(submission)["spec"];
  EXPECT_FALSE(spec.contains("initContainers"));
  EXPECT_EQ(spec["volumes"][1]["persistentVolumeClaim"]["claimName"], "models");
  EXPECT_EQ(spec["containers"][0]["command"], json::array({"/opt/tidegate", "weights", "fetch"}));
  EXPECT_EQ(spec["containers"][0]["env"].back()["name"], "TIDEGATE_WEIGHTS");
  submission.run.weights->image.clear();
  EXPECT_THAT(kubernetes::FirstDefect(submission), HasSubstr("scaling.weights.image"));
}

TEST(WeightsStep, ThatFailsInAPodIsToldInItsOwnWords) {
  const json object = {
      {"metadata", {{"name", "r-1"}}},
      {"spec", {{"initContainers", json::array({{{"name", "tidegate-weights"}}})}}},
      {"status",
       {{"phase", "Failed"},
        {"containerStatuses",
         json::array({{{"name", "run"}, {"state", {{"waiting", {{"reason", "PodInitializing"}}}}}}})},
        {"initContainerStatuses",
         json::array(
             {{{"name", "tidegate-weights"},
               {"state",
                {{"terminated",
                  {{"exitCode", 1},
                   {"message", "tidegate-weights: {}\ntidegate: https://h/m answers 404\n"}}}}}}})}}}};
  const auto pod = kubernetes::ReadPod(object);
  ASSERT_TRUE(pod);
  EXPECT_TRUE(pod->fetches_weights);
  EXPECT_THAT(kubernetes::WhyEnded(*pod, false), HasSubstr("https://h/m answers 404"));
}

}  // namespace
}  // namespace plugins::launchers
