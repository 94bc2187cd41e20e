// Plans: the limits that apply to a node, for each model that a limit on its path names, and for all other models. The
// hot path walks them.
//
// Plans are immutable and shared: a node without limits of its own uses its parent's. A reservation holds the
// plan that it was charged to, so a reload never frees a counter under it. One lock for each root organisation
// guards everything below it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "router/limits/limit.h"

namespace router::limits {

// A model's name, interned by the tree. kUnnamed: a model that no limit names.
enum class ModelRef : uint32_t { kUnnamed = 0 };

// The limits of one path for one model, leaf first.
struct Plan {
  std::vector<Limit*> limits;
  bool counts_output = false;  // some limit depends on the number of output tokens
  bool counts_money = false;   // some limit is a budget in money
};

// A root organisation. `latest` keeps the time of charges from going back when threads arrive out of order.
struct Root {
  std::mutex lock;
  Moment latest;

  const Moment& Advance(conf::TimePoint now) {
    if (now > latest.at) latest = Moment::At(now);
    return latest;
  }
};

// The plans of one node. Owns the node's limits and keeps its ancestors' alive.
struct PlanSet {
  std::shared_ptr<Root> root;
  std::shared_ptr<const PlanSet> parent;
  std::vector<std::shared_ptr<Limit>> own;
  Plan any_model;
  std::vector<std::pair<ModelRef, Plan>> by_model;  // the few models that limits of the path name

  const Plan& For(ModelRef model) const {
    for (const auto& [ref, plan] : by_model) {
      if (ref == model) return plan;
    }
    return any_model;
  }
};

// A tenant, team or key. Lives as long as a NodeRef to it.
struct Node {
  Node(std::shared_ptr<Root> r, std::string p) : root(std::move(r)), path(std::move(p)) {}

  const std::shared_ptr<Root> root;
  const std::string path;
  std::shared_ptr<const PlanSet> plans;  // guarded by root->lock; null once the node is removed
};

// A handle to a node, resolved once, for example at authentication. A copy costs a reference count.
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(std::shared_ptr<Node> node) : node_(std::move(node)) {}

  explicit operator bool() const { return node_ != nullptr; }
  Node* operator->() const { return node_.get(); }
  const std::string& path() const { return node_->path; }

 private:
  std::shared_ptr<Node> node_;
};

}  // namespace router::limits
