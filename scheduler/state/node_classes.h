// Classes of nodes that are alike: what is found out for one node of a class holds for all of them.
//
// A class is what a node is (type, labels, whether it may take work) and what is free on it. Where all
// devices of a type are alike to each other, their order does not count. A decision looks at the classes, of
// which there are few, not at the nodes. A class that lost its last node is remembered for a while, since
// nodes return to earlier states; its id may then be given to another class, under a new generation.
//
// Owned by ClusterState, which moves nodes between classes; one thread.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scheduler/state/node_state.h"

namespace scheduler {

using ClassId = uint32_t;
using StaticId = uint32_t;  // static properties of a node

struct NodeClass {
  StaticId fixed = 0;
  TypeId type = 0;
  uint32_t generation = 0;    // changes when the id is given to another class
  NodeState state;            // with `members` 0 or 1
  std::vector<NodeId> nodes;  // in ascending order
};

class NodeClasses {
 public:
  explicit NodeClasses(size_t nodes);
  NodeClasses(const NodeClasses&) = delete;
  NodeClasses& operator=(const NodeClasses&) = delete;

  // Moves a node into the class of `state`; `ordered`: the places of its devices count.
  void Move(NodeId node, StaticId fixed, TypeId type, const NodeState& state, bool ordered);

  ClassId of(NodeId node) const { return of_[node]; }
  // Changes when the id is given to another class.
  uint32_t generation(ClassId id) const { return generation_[id]; }
  const NodeClass& operator[](ClassId id) const { return classes_[id]; }
  // The classes with nodes. Their order must not influence any decision.
  std::span<const ClassId> live() const { return live_; }
  // Greater than every id.
  uint32_t bound() const { return static_cast<uint32_t>(classes_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    const std::vector<NodeClass>* classes;
    size_t operator()(ClassId id) const;
    size_t operator()(const NodeClass& wanted) const;
  };
  struct Equal {
    using is_transparent = void;
    const std::vector<NodeClass>* classes;
    bool operator()(ClassId a, ClassId b) const { return a == b; }
    bool operator()(ClassId a, const NodeClass& b) const;
    bool operator()(const NodeClass& a, ClassId b) const { return (*this)(b, a); }
  };

  ClassId Intern();
  void ForgetEmpty();

  std::vector<NodeClass> classes_;
  std::vector<uint32_t> generation_;
  NodeClass wanted_;  // scratch
  absl::flat_hash_set<ClassId, Hash, Equal> ids_;
  std::vector<ClassId> unused_;
  std::vector<ClassId> live_;
  std::vector<uint32_t> live_at_;  // per class, its place in live_
  std::vector<ClassId> of_;
};

}  // namespace scheduler
