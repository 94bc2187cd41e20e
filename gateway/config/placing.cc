#include "gateway/config/placing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "conf/reader.h"
#include "conf/text.h"
#include "conf/writer.h"
#include "gateway/config/types.h"

namespace gateway::config {
namespace {

using scheduler::LabelRule;

constexpr size_t kMostRules = 32;
constexpr size_t kMostValues = 256;
constexpr size_t kLongestLabel = 253;
constexpr size_t kNamedValues = 8;  // in a message

constexpr conf::Word<scheduler::Isolation> kIsolations[] = {{"none", scheduler::Isolation::kNone},
                                                            {"tenant", scheduler::Isolation::kTenant},
                                                            {"node", scheduler::Isolation::kNode}};

using LabelValues = std::map<std::string, std::vector<std::string>>;

// `{matlab: 2, ansys: 1}`
struct ResourceAsks {
  std::vector<scheduler::ResourceAsk>* asks;
};

void Read(const conf::Value& value, ResourceAsks& out) {
  std::map<std::string, uint32_t> counts;
  conf::Read(value, counts);
  out.asks->clear();
  for (const auto& [name, count] : counts) {
    if (const std::string wrong = ValidName()(name); !wrong.empty()) value.ErrorAtKey(name, wrong);
    if (count == 0 || count > scheduler::kMostOfResource)
      value.ErrorAtKey(name, fmt::format("is {}; must be from 1 to {}", count, scheduler::kMostOfResource));
    out.asks->push_back({name, count});
  }
}

void Write(conf::Writer& writer, const ResourceAsks& in) {
  std::map<std::string, uint32_t> counts;
  for (const scheduler::ResourceAsk& ask : *in.asks) counts[ask.name] = ask.count;
  conf::Write(writer, counts);
}

std::string Some(const std::set<std::string_view>& names) {
  const std::vector<std::string_view> all(names.begin(), names.end());
  const size_t shown = std::min(all.size(), kNamedValues);
  return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     all.size() > shown ? ", …" : "");
}

std::string Hint(std::string_view name, const std::set<std::string_view>& known) {
  const std::vector<std::string_view> all(known.begin(), known.end());
  if (std::string near = conf::DidYouMean(name, all); !near.empty()) return near;
  return all.empty() ? std::string(", there is none") : fmt::format("; there are {}", Some(known));
}

// The labels of all nodes, with their values.
std::map<std::string_view, std::set<std::string_view>> LabelsOf(const scheduler::Cluster& cluster) {
  std::map<std::string_view, std::set<std::string_view>> labels;
  for (const scheduler::Node& node : cluster.nodes) {
    for (const auto& [key, value] : node.labels) {
      if (!IsOwnLabel(key)) labels[key].insert(value);
    }
  }
  return labels;
}

}  // namespace

bool IsOwnLabel(std::string_view key) {
  return key.starts_with("tidegate.io/weights-");
}

void Read(const conf::Value& value, LabelRules& out) {
  out.rules.clear();
  if (value.kind() != conf::Kind::kMapping)
    return value.ErrorExpected("labels with their values, such as {zone: [eu-1, eu-2]}");
  for (const auto& [key, of] : value.Fields()) {
    LabelRule& rule = out.rules.emplace_back();
    rule.key = key;
    conf::Read(of, conf::OneOrMany(rule.values));
    if (key.empty() || key.size() > kLongestLabel || IsOwnLabel(key)) {
      of.Error(fmt::format("\"{}\" is not a label of nodes that a file may name", key));
    } else if (rule.values.empty()) {
      of.Error("must name values of the label");
    } else if (rule.values.size() > kMostValues) {
      of.Error(fmt::format("names {} values, at most {} fit", rule.values.size(), kMostValues));
    }
  }
  if (out.rules.empty()) value.Error("must not be empty");
  if (out.rules.size() > kMostRules)
    value.Error(fmt::format("names {} labels, at most {} fit", out.rules.size(), kMostRules));
}

void Write(conf::Writer& writer, const LabelRules& in) {
  LabelValues labels;
  for (const LabelRule& rule : in.rules) labels[rule.key] = rule.values;
  conf::Write(writer, labels);
}

void Read(const conf::Value& value, SpreadOver& out) {
  std::string word;
  conf::Read(value, word);
  if (word.empty() || word.size() > kLongestLabel)
    return value.Error("must be none, leaf, node, or a label of nodes such as zone");
  out.spread = word != "none";
  out.over = word == "none" || word == "leaf" ? "" : word;
}

void Write(conf::Writer& writer, const SpreadOver& in) {
  conf::Write(writer, std::string(!in.spread ? "none" : in.over.empty() ? "leaf" : in.over));
}

void BindPlacing(conf::Object& o, Placing& placing) {
  o.Optional("require", placing.require);
  o.Optional("avoid", placing.avoid);
  o.Optional("prefer", placing.prefer);
  o.Optional("spread", placing.spread);
  o.Optional("apart", placing.apart);
  o.Optional("isolation", conf::Choice(placing.isolation, "isolation", kIsolations));
  ResourceAsks resources{&placing.resources};
  o.Optional("resources", resources);
}

void Apply(const Placing& placing, scheduler::Job& job) {
  scheduler::Ask& ask = job.roles.front().ask;
  ask.require = placing.require.rules;
  ask.avoid = placing.avoid.rules;
  ask.prefer = placing.prefer.rules;
  ask.isolation = placing.isolation;
  job.spread = placing.spread.spread;
  job.spread_over = placing.spread.over;
  job.anti_affinity = placing.apart;
  job.resources = placing.resources;
}

std::vector<PlacingDefect> CheckPlacing(const Placing& placing, const scheduler::Cluster& cluster) {
  std::vector<PlacingDefect> defects;
  std::set<std::string_view> resources;
  for (const scheduler::Resource& resource : cluster.resources) resources.insert(resource.name);
  for (const scheduler::ResourceAsk& ask : placing.resources) {
    const std::string pointer = "/resources/" + ask.name;
    const auto known = std::ranges::find(cluster.resources, ask.name, &scheduler::Resource::name);
    if (known == cluster.resources.end()) {
      defects.push_back({pointer, ask.name,
                         fmt::format("unknown resource \"{}\"{}", ask.name,
                                     resources.empty() ? "; declare it under scaling.resources"
                                                       : Hint(ask.name, resources))});
    } else if (ask.count > known->count) {
      defects.push_back({pointer, std::to_string(ask.count),
                         fmt::format("the cluster has {} of the resource {}; ask for at most as many",
                                     known->count, ask.name)});
    }
  }
  if (cluster.nodes.empty()) return defects;
  const auto labels = LabelsOf(cluster);
  std::set<std::string_view> keys;
  for (const auto& [key, values] : labels) keys.insert(key);
  const auto check = [&](std::string_view list, const LabelRules& rules) {
    for (const LabelRule& rule : rules.rules) {
      const std::string pointer = fmt::format("/{}/{}", list, rule.key);
      const auto known = labels.find(rule.key);
      if (known == labels.end()) {
        defects.push_back({pointer, rule.key,
                           fmt::format("no node has the label \"{}\"{}", rule.key, Hint(rule.key, keys))});
        continue;
      }
      for (const std::string& value : rule.values) {
        if (known->second.contains(value)) continue;
        defects.push_back({pointer, value,
                           fmt::format("no node has the label {} with the value \"{}\"{}", rule.key, value,
                                       Hint(value, known->second))});
      }
    }
  };
  check("require", placing.require);
  check("avoid", placing.avoid);
  check("prefer", placing.prefer);
  const std::string& over = placing.spread.over;
  if (!over.empty() && over != "node" && !labels.contains(over)) {
    keys.insert({"leaf", "node", "none"});
    defects.push_back(
        {"/spread", over,
         fmt::format("no node has the label \"{}\", over whose values members would be spread{}", over,
                     Hint(over, keys))});
  }
  return defects;
}

}  // namespace gateway::config
