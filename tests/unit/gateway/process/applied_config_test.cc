// What a reload cannot change.
#include "gateway/process/applied_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

#include "gateway/config/load.h"
#include "tests/support/temp_dir.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReloadedFiles : public testing::Test {
 protected:
  ReloadedFiles() {
    Write("planner.yaml", "queues: [{name: research}, {name: spare}]\n");
    Write("cluster.yaml", Cluster(2));
  }

  static std::string Cluster(int nodes) {
    return fmt::format(
        "devices: [{{name: l40s}}]\ntypes: [{{name: server, cpu: 64, memory: 512GiB, device: l40s, count: "
        "4}}]\n"
        "nodes: [{{name: 'gpu-{{1..{}}}', type: server}}]\n",
        nodes);
  }
  void Write(const std::string& name, std::string_view text) const { std::ofstream(folder_ / name) << text; }

  gateway::Config Load(std::string_view more = "") const {
    const std::string text = fmt::format(
        "server: {{listen: 127.0.0.1:8080, state_dir: {0}/state}}\n"
        "tenants: [{{name: default, models: [\"*\"]}}]\n"
        "models: [{{name: m, endpoints: [{{url: http://127.0.0.1:8000, engine: vllm}}]}}]\n"
        "scaling: {{planner: {0}/planner.yaml, cluster: {0}/cluster.yaml, runs: {{same_user: true}}{1}}}\n",
        folder_.path(), more);
    gateway::LoadResult loaded = gateway::ParseConfig(text, folder_ / "t.yaml");
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
    return *std::move(loaded.config);
  }

  std::string Refusal(const gateway::Config& running, const gateway::Config& wanted) const {
    return std::string(gateway::CheckUnchanged(running, wanted).message());
  }

  tests::TempDir folder_;
};

TEST_F(ReloadedFiles, WhatThePlannersFileSaysIsFixed) {
  const gateway::Config running = Load();
  EXPECT_EQ(Refusal(running, Load()), "");
  Write("planner.yaml", "# a comment changes nothing\nqueues: [{name: research}, {name: spare}]\n");
  EXPECT_EQ(Refusal(running, Load()), "");
  Write("planner.yaml", "queues: [{name: research}]\n");
  EXPECT_THAT(Refusal(running, Load()),
              AllOf(HasSubstr("a reload cannot change /scaling/planner (the content of "),
                    HasSubstr("planner.yaml)"), Not(HasSubstr("cluster"))));
}

TEST_F(ReloadedFiles, WhatTheClustersFileSaysIsFixed) {
  const gateway::Config running = Load();
  Write("cluster.yaml", Cluster(3));
  EXPECT_THAT(Refusal(running, Load()),
              HasSubstr("a reload cannot change /scaling/cluster (the content of "));
}

}  // namespace
