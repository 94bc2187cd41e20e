// A real Slurm of some nodes with h100, and the configuration of a gateway whose replicas and jobs are its batch jobs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/slurm_cluster.h"
#include "tests/support/temp_dir.h"

namespace tests {

class SlurmWorld : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    const SlurmCluster::Options options = ClusterOptions();
    cluster_ = std::make_unique<SlurmCluster>(options);
    ASSERT_EQ(cluster_->Start(), "");
    std::ofstream(folder_ / "cluster.yaml") << fmt::format(
        "devices: [{{name: h100, memory: 80GiB}}]\n"
        "types: [{{name: server, cpu: {}, memory: 500GiB, device: h100, count: {}}}]\n"
        "nodes: [{{name: \"node{{1..{}}}\", type: server}}]\n",
        options.cpus, options.gpus, options.nodes);
    std::ofstream(folder_ / "token") << cluster_->Token();
  }

  virtual SlurmCluster::Options ClusterOptions() const { return {}; }

  // Members of `scaling`; `of_slurm` are further ones of its member `slurm`, after a comma.
  std::string Section(std::string_view on_exit = "keep", std::string_view of_slurm = {}) const {
    return fmt::format(
        "launcher: slurm, cluster: {0}, on_exit: {1}, slurm: {{url: \"http://127.0.0.1:{2}\", user: {3}, "
        "token: \"file:{4}\", partition: main, logs: {5}, directory: {5}{6}}}",
        folder_ / "cluster.yaml", on_exit, cluster_->rest_port(), cluster_->user(), folder_ / "token",
        shared(), of_slurm);
  }

  // A folder that the gateway and the jobs of all nodes have.
  std::string shared() const { return cluster_->folder() + "/work"; }

  // Slurm's jobs in these states ("R", "PD,R,CG"), a line for each.
  std::string Jobs(const std::string& states, const std::string& format = "%j %b") const {
    return cluster_->Run({"/usr/bin/squeue", "-h", "-t", states, "-o", format});
  }

  TempDir folder_;
  std::unique_ptr<SlurmCluster> cluster_;
};

}  // namespace tests
