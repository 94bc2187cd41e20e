#include "scheduler/io/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "scheduler/io/units.h"

namespace scheduler::io {

void AddNodes(Cluster& cluster, NodeId like, uint32_t count) {
  const Node model = cluster.nodes[like];
  const Domain leaf = cluster.fabric.domains[model.domain];
  std::vector<size_t> in_domain(cluster.fabric.domains.size());
  for (const Node& node : cluster.nodes) ++in_domain[node.domain];
  const size_t leaf_size = *std::ranges::max_element(in_domain);
  const bool leaves = leaf.parent != kNone;
  DomainId domain = model.domain;
  size_t room = leaves ? leaf_size - in_domain[domain] : count;
  for (uint32_t i = 0; i < count; ++i) {
    if (room == 0) {
      domain = static_cast<DomainId>(cluster.fabric.domains.size());
      room = leaf_size;
      Domain added = leaf;
      added.name = fmt::format("added-{}", domain);
      cluster.fabric.domains.push_back(std::move(added));
    }
    --room;
    Node node = model;
    node.name = fmt::format("added-node-{}", i);
    node.health = Health::kHealthy;
    node.domain = domain;
    cluster.nodes.push_back(std::move(node));
  }
}

std::string SetQuota(std::string_view text, std::vector<Queue>& queues) {
  const size_t equals = text.rfind('=');
  const std::string_view amount = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  const size_t colon = amount.rfind(':');
  const std::optional<int64_t> milli =
      ParseMilli(amount.substr(colon == std::string_view::npos ? 0 : colon + 1));
  if (!milli) {
    return fmt::format("\"{}\" must be QUEUE=DEVICES or QUEUE=KIND:DEVICES, such as nlp=64 or nlp=h100:64",
                       text);
  }
  const std::string_view name = text.substr(0, equals);
  const auto queue = std::ranges::find(queues, name, &Queue::name);
  if (queue == queues.end()) {
    std::vector<std::string_view> names;
    for (const Queue& one : queues) names.push_back(one.name);
    return fmt::format("there is no queue \"{}\"{}", name, conf::DidYouMean(name, names));
  }
  if (colon == std::string_view::npos) {
    queue->deserved = {{"*", *milli}};
  } else {
    queue->deserved[std::string(amount.substr(0, colon))] = *milli;
  }
  return {};
}

}  // namespace scheduler::io
