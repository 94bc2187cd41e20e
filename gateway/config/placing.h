// Where work may be placed, in the words that job files and policies share: labels of nodes, spreading, isolation,
// and countable resources of the cluster.
//
// Plain values. CheckPlacing checks them against a cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "scheduler/model.h"
#include "scheduler/work.h"

namespace conf {
class Object;
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

// `{zone: [eu-1, eu-2], disk: nvme}`: a rule for each label.
struct LabelRules {
  std::vector<scheduler::LabelRule> rules;
};
void Read(const conf::Value& value, LabelRules& out);
void Write(conf::Writer& writer, const LabelRules& in);

// `none`, `leaf`, `node`, or a label of nodes such as `zone`.
struct SpreadOver {
  bool spread = false;
  std::string over;  // as Job::spread_over
};
void Read(const conf::Value& value, SpreadOver& out);
void Write(conf::Writer& writer, const SpreadOver& in);

struct Placing {
  LabelRules require;  // every rule must hold
  LabelRules avoid;    // none may hold
  LabelRules prefer;
  SpreadOver spread;
  bool apart = false;  // no two members on one node
  scheduler::Isolation isolation = scheduler::Isolation::kNone;
  std::vector<scheduler::ResourceAsk> resources;  // `{matlab: 2}`
};

// Its keys stand among those of the object.
void BindPlacing(conf::Object& object, Placing& placing);
// Into a job of one role.
void Apply(const Placing& placing, scheduler::Job& job);

// What the cluster does not have: labels, values of them, resources. Nothing where its nodes are not known yet.
struct PlacingDefect {
  std::string pointer;  // "/require/zone"
  std::string value;
  std::string message;
};
std::vector<PlacingDefect> CheckPlacing(const Placing& placing, const scheduler::Cluster& cluster);

// Labels of the planner's own, which no file names.
bool IsOwnLabel(std::string_view key);

}  // namespace gateway::config
