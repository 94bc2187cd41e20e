#include "gateway/config/pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/json_text.h"
#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/kubernetes.h"
#include "gateway/config/types.h"
#include "router/facts/json_index.h"

namespace gateway::config {
namespace {

using nlohmann::json;
using plugins::launchers::kubernetes::DeviceResource;
namespace pods = plugins::launchers::kubernetes;

constexpr conf::Word<pods::Binding> kBinds[] = {{"affinity", pods::Binding::kAffinity},
                                                {"direct", pods::Binding::kDirect}};
constexpr conf::Word<TenantPods> kTenantPods[] = {{"safe", TenantPods::kSafe}, {"any", TenantPods::kAny}};

struct PullPolicy {
  std::string operator()(const std::string& word) const {
    const bool known = word == "Always" || word == "IfNotPresent" || word == "Never";
    return known ? "" : "must be Always, IfNotPresent or Never";
  }
};

// The value of a label, which the runs' pods carry.
struct LabelValue {
  std::string operator()(const std::string& text) const {
    const auto at_end = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    constexpr size_t kLongest = 63;
    const bool fits =
        !text.empty() && text.size() <= kLongest && at_end(text.front()) && at_end(text.back()) &&
        std::ranges::all_of(text, [&](char c) { return at_end(c) || c == '-' || c == '_' || c == '.'; });
    return fits ? ""
                : "must be 1 to 63 letters, digits, '-', '_' and '.', and begin and end with a letter or "
                  "digit";
  }
};

struct ResourceName {
  std::string operator()(const std::string& name) const {
    return name.find('/') != std::string::npos ? ""
                                               : "must be the name of a resource, such as nvidia.com/gpu";
  }
};

json JsonOf(const conf::Value& value) {
  switch (value.kind()) {
    case conf::Kind::kNull:
      return nullptr;
    case conf::Kind::kScalar: {
      const std::string& text = value.text();
      if (value.quoted()) return text;
      if (text == "true") return true;
      if (text == "false") return false;
      return router::IsJsonNumber(text) ? conf::ParseJson(text) : json(text);
    }
    case conf::Kind::kSequence: {
      json list = json::array();
      for (const conf::Value& item : value.Items()) list.push_back(JsonOf(item));
      return list;
    }
    case conf::Kind::kMapping: {
      json object = json::object();
      for (const auto& [key, field] : value.Fields()) object[key] = JsonOf(field);
      return object;
    }
  }
  return nullptr;
}

bool HasEmpty(const json& value) {
  if (value.is_null() || (value.is_object() && value.empty())) return true;
  return value.is_structured() && std::ranges::any_of(value, HasEmpty);
}

}  // namespace

void Read(const conf::Value& value, PodPiece& out) {
  json piece;
  if (value.kind() == conf::Kind::kScalar) piece = conf::ParseJson(value.text());
  if (value.kind() == conf::Kind::kMapping) piece = JsonOf(value);
  if (!piece.is_object()) return value.ErrorExpected("a piece of Kubernetes' PodSpec: a mapping");
  if (const auto wrong = pods::WrongPiece(piece)) {
    value.document().AddAt(value.pointer() + wrong->pointer, "", wrong->why);
    return;
  }
  out.json = conf::DumpJson(piece);
}

// A tree that is written loses its empty mappings, and `emptyDir: {}` means something: such a piece is a text.
void Write(conf::Writer& writer, const PodPiece& in) {
  if (in.empty()) return;
  json piece = json::parse(in.json);
  writer.json() = HasEmpty(piece) ? json(in.json) : std::move(piece);
}

}  // namespace gateway::config

namespace plugins::launchers::kubernetes {

static void Bind(conf::Object& o, DeviceResource& row) {
  o.Required("resource", row.resource, gateway::config::ResourceName());
  o.Optional("kind", row.kind, gateway::config::ValidName());
  o.Optional("label", row.label, conf::NotEmpty());
  o.Optional("value", row.value, conf::NotEmpty());
  if (o.reading() && o.Has("label") != o.Has("value"))
    o.Error("label and value belong together: the nodes to which the row applies");
}

static void Bind(conf::Object& o, TopologyLevel& level) {
  o.Required("level", level.level, gateway::config::ValidName());
  o.Required("labels", conf::OneOrMany(level.labels), conf::NotEmpty());
}

}  // namespace plugins::launchers::kubernetes

namespace gateway::config {
namespace {

// From the node outwards; above all of them is the whole cluster.
struct Levels {
  std::string operator()(const std::vector<pods::TopologyLevel>& levels) const {
    std::set<std::string_view> names;
    for (const pods::TopologyLevel& level : levels) {
      if (level.level == "cluster") return "must not have the level cluster, which is above all others";
      if (!names.insert(level.level).second)
        return fmt::format("has the level {} twice; list all its labels in one", level.level);
    }
    return "";
  }
};

struct LabelsOfNodes {
  std::string operator()(const std::map<std::string, std::string>& labels) const {
    for (const auto& [label, of] : labels) {
      if (label.empty() || of.empty()) return "must name a label of Kubernetes for each label of the planner";
    }
    return "";
  }
};

}  // namespace

void Bind(conf::Object& o, FoundNodes& out) {
  o.Optional("selector", out.selector, conf::NotEmpty());
  o.Optional("topology", out.how.topology, Levels());
  o.Optional("labels", out.how.labels, LabelsOfNodes());
}

void Bind(conf::Object& o, Pods& out) {
  o.Required("name", out.name, LabelValue());
  o.Optional("bind", conf::Choice(out.bind, "way to bind", kBinds));
  o.Optional("devices", out.devices);
  o.Optional("nodes", out.nodes);
  o.Optional("start_within", out.start_within, conf::Positive());
  o.Optional("lost_after", out.lost_after, conf::Positive());
  o.Optional("image_pull_policy", out.image_pull_policy, PullPolicy());
  o.Optional("image_pull_secrets", conf::OneOrMany(out.image_pull_secrets), conf::NotEmpty());
  o.Optional("tenant_pods", conf::Choice(out.tenant_pods, "rule", kTenantPods));
  o.Optional("pod", out.pod);
}

}  // namespace gateway::config
