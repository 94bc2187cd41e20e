// What a gateway needs that starts its replicas and jobs as pods of the tests' Kubernetes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/kube_cluster.h"
#include "tests/support/temp_dir.h"

namespace tests {

// As the planner sees it. What runs asks for fits a node of two cores.
inline void WriteKubeNodes(const std::string& path) {
  std::ofstream(path) << "devices: [{name: h100, memory: 80GiB}]\n"
                         "types: [{name: server, cpu: 2, memory: 4GiB, device: h100, count: 8}]\n"
                         "nodes: [{name: \"node-{1..3}\", type: server}]\n";
}

// The section `kubernetes`.
inline std::string KubeAccess(const KubeCluster& cluster) {
  return fmt::format("kubernetes: {{kubeconfig: {}, namespace: {}}}\n", cluster.kubeconfig(),
                     cluster.space());
}

// Members of the section `scaling`. `more` are further members of its `kubernetes`, after a comma.
inline std::string KubeScaling(const KubeCluster& cluster, const std::string& nodes,
                               const std::string& more = {}) {
  return fmt::format(
      "launcher: kubernetes, cluster: {}, on_exit: keep, kubernetes: {{name: gateway, image_pull_policy: "
      "{}{}}}",
      nodes, cluster.has_parts() ? "Never" : "IfNotPresent", more);
}

}  // namespace tests
