#include "scheduler/io/nodes_csv.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "conf/text.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/csv.h"
#include "scheduler/io/lines.h"

namespace scheduler::io {
namespace {

constexpr std::array<std::string_view, 5> kOwnColumns = {"name", "type", "domain", "health",
                                                         "power_budget_watts"};
constexpr std::array<std::string_view, 5> kOpenbColumns = {"sn", "cpu_milli", "memory_mib", "gpu", "model"};
constexpr size_t kMostColumns = 1000;
constexpr std::string_view kLabelPrefix = "label.";
constexpr std::array<Health, 4> kHealthStates = {Health::kHealthy, Health::kSuspect, Health::kDraining,
                                                 Health::kQuarantined};

// An index of named things, by name.
class Index {
 public:
  template <class T>
  explicit Index(const std::vector<T>& list) {
    for (const T& one : list) Add(one.name);
  }
  void Add(const std::string& name) { at_.emplace(name, at_.size()); }
  std::optional<size_t> Find(const std::string& name) const {
    const auto at = at_.find(name);
    return at == at_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  absl::flat_hash_map<std::string, size_t> at_;
};

template <class T>
std::string Hint(const std::vector<T>& list, const std::string& name) {
  std::vector<std::string_view> names;
  names.reserve(list.size());
  for (const T& one : list) names.push_back(one.name);
  return conf::DidYouMean(name, names);
}

class NodeRows {
 public:
  // The cluster has a fabric.
  NodeRows(std::string file, Cluster& cluster)
      : file_(std::move(file)),
        cluster_(cluster),
        types_(cluster.types),
        kinds_(cluster.kinds),
        domains_(cluster.fabric.domains) {
    for (const Node& node : cluster.nodes) first_line_.emplace(node.name, 0);
  }

  void Read(std::string_view line, int number) {
    std::optional<std::vector<std::string>> fields = SplitCsv(line);
    if (!started_) {
      started_ = true;
      if (fields) ReadHeader(std::move(*fields), number);
      if (!fields) report_.Add({file_, "", number, "", "has a quote that does not end"});
      return;
    }
    ++report_.lines;
    const size_t before = cluster_.nodes.size();
    if (header_ != nullptr) ReadRow(std::move(fields), number);
    if (cluster_.nodes.size() == before) ++report_.left_out;
  }

  LineReport Take() { return std::move(report_); }

 private:
  void ReadHeader(std::vector<std::string> names, int number) {
    if (names.size() > kMostColumns) {
      report_.Add(
          {file_, "", number, "", fmt::format("{} columns, at most {} fit", names.size(), kMostColumns)});
      return;
    }
    auto header = std::make_unique<CsvHeader>(std::move(names));
    is_openb_ = header->Has("sn");
    const auto columns = is_openb_ ? std::span<const std::string_view>(kOpenbColumns)
                                   : std::span<const std::string_view>(kOwnColumns);
    const size_t required = is_openb_ ? columns.size() : 2;
    const size_t before = report_.problems.size();
    for (size_t c = 0; c < header->size(); ++c) {
      const std::string& name = (*header)[c];
      if (header->Find(name) != c) {
        report_.Add({file_, "", number, name, fmt::format("column \"{}\" is given twice", name)});
      }
      const bool is_label = !is_openb_ && name.starts_with(kLabelPrefix);
      if (is_label || std::ranges::find(columns, name) != columns.end()) continue;
      report_.Add({file_, "", number, name,
                   fmt::format("unknown column \"{}\", expected {}{}", name, fmt::join(columns, ", "),
                               is_openb_ ? "" : " or label.KEY")});
    }
    for (size_t c = 0; c < required; ++c) {
      if (header->Has(columns[c])) continue;
      report_.Add({file_, "", number, "", fmt::format("column \"{}\" is missing", columns[c])});
    }
    if (report_.problems.size() == before) header_ = std::move(header);
  }

  void ReadRow(std::optional<std::vector<std::string>> fields, int number) {
    if (!fields || fields->size() != header_->size()) {
      const std::string message =
          fields ? fmt::format("has {} fields, the header has {}", fields->size(), header_->size())
                 : "has a quote that does not end";
      report_.Add({file_, "", number, "", message});
      return;
    }
    CsvRow row(*header_, std::move(*fields));
    const std::string_view name_column = is_openb_ ? "sn" : "name";
    Node node{.name = row.Text(name_column)};
    if (node.name.empty()) row.Fail(name_column, "must not be empty");
    if (const auto first = first_line_.find(node.name); first != first_line_.end()) {
      row.Fail(name_column,
               first->second == 0
                   ? fmt::format("node \"{}\" is in the cluster already", node.name)
                   : fmt::format("node \"{}\" is given twice, first on line {}", node.name, first->second));
    }
    if (is_openb_) {
      ReadOpenb(row, node);
    } else {
      ReadOwn(row, node);
    }
    if (cluster_.nodes.size() >= kMostNodes) {
      row.Fail(name_column, fmt::format("is the {}th node, at most {} fit", kMostNodes + 1, kMostNodes));
    }
    if (!row.defect().empty()) {
      report_.Add({file_, "", number, row.value(), row.defect()});
      return;
    }
    first_line_.emplace(node.name, number);
    cluster_.nodes.push_back(std::move(node));
  }

  void ReadOwn(CsvRow& row, Node& node) {
    const std::string& type = row.Text("type");
    if (const auto at = types_.Find(type)) {
      node.type = static_cast<TypeId>(*at);
    } else {
      row.Fail("type", fmt::format("unknown node type \"{}\"{}", type, HintIfShown(cluster_.types, type)));
    }
    ReadDomain(row, node);
    ReadHealth(row, node);
    if (!row.Text("power_budget_watts").empty()) {
      node.power_budget_watts =
          static_cast<double>(row.Whole("power_budget_watts", 0, static_cast<int64_t>(kMostWatts)));
    }
    for (size_t c = 0; c < header_->size(); ++c) {
      const std::string& column = (*header_)[c];
      if (!column.starts_with(kLabelPrefix) || row.Text(column).empty()) continue;
      node.labels[column.substr(kLabelPrefix.size())] = row.Text(column);
    }
  }

  void ReadDomain(CsvRow& row, Node& node) const {
    const std::string& domain = row.Text("domain");
    const std::vector<Domain>& domains = cluster_.fabric.domains;
    if (domain.empty() && domains.size() == 1) return;
    if (const auto at = domains_.Find(domain)) {
      node.domain = static_cast<DomainId>(*at);
    } else if (domain.empty()) {
      row.Fail("domain", "is required, as the fabric has several domains");
    } else {
      row.Fail("domain", fmt::format("unknown fabric domain \"{}\"{}", domain, HintIfShown(domains, domain)));
    }
  }

  static void ReadHealth(CsvRow& row, Node& node) {
    const std::string& text = row.Text("health");
    if (text.empty()) return;
    const auto* const at = std::ranges::find(kHealthStates, text, [](Health h) { return Name(h); });
    if (at != kHealthStates.end()) {
      node.health = *at;
    } else {
      row.Fail(
          "health",
          fmt::format("unknown health \"{}\", expected healthy, suspect, draining or quarantined", text));
    }
  }

  void ReadOpenb(CsvRow& row, Node& node) {
    NodeType type{.cpu_milli = row.Whole("cpu_milli", 0, kMostAmount),
                  .memory_mib = row.Whole("memory_mib", 0, kMostAmount),
                  .devices = static_cast<uint8_t>(row.Whole("gpu", 0, kMaxDevices))};
    const std::string& model = row.Text("model");
    if (type.devices > 0 && model.empty()) row.Fail("model", "must not be empty where gpu is above 0");
    const auto& domains = cluster_.fabric.domains;
    node.domain = static_cast<DomainId>(std::ranges::find(domains, kNone, &Domain::parent) - domains.begin());
    if (!row.defect().empty()) return;
    if (type.devices > 0) {
      const auto kind = KindOf(model);
      if (!kind) {
        row.Fail("model", fmt::format("is the {}th device kind, at most {} fit", kMaxKinds + 1, kMaxKinds));
        return;
      }
      type.kind = *kind;
    }
    type.name = fmt::format("{}x{}-{}m-{}mib", type.devices, type.devices > 0 ? model : "none",
                            type.cpu_milli, type.memory_mib);
    const auto at = types_.Find(type.name);
    if (!at && cluster_.types.size() >= kMostTypes) {
      row.Fail("sn", fmt::format("is of the {}th type of node, at most {} fit", kMostTypes + 1, kMostTypes));
      return;
    }
    node.type = static_cast<TypeId>(at.value_or(cluster_.types.size()));
    if (at) return;
    types_.Add(type.name);
    cluster_.types.push_back(std::move(type));
  }

  // It takes a look at all names.
  template <class T>
  std::string HintIfShown(const std::vector<T>& list, const std::string& name) const {
    return report_.problems.size() < LineReport::kShown ? Hint(list, name) : std::string();
  }

  std::optional<KindId> KindOf(const std::string& model) {
    if (const auto at = kinds_.Find(model)) return static_cast<KindId>(*at);
    if (cluster_.kinds.size() >= kMaxKinds) return std::nullopt;
    kinds_.Add(model);
    cluster_.kinds.push_back({.name = model});
    return static_cast<KindId>(cluster_.kinds.size() - 1);
  }

  std::string file_;
  Cluster& cluster_;
  Index types_;
  Index kinds_;
  Index domains_;
  LineReport report_;
  std::unique_ptr<const CsvHeader> header_;  // null: it was refused
  bool started_ = false;
  bool is_openb_ = false;
  absl::flat_hash_map<std::string, int> first_line_;
};

}  // namespace

LineReport ReadNodes(std::string_view text, const std::string& file, Cluster& cluster) {
  if (cluster.fabric.domains.empty()) cluster.fabric = FlatFabric();
  NodeRows rows(file, cluster);
  ForEachLine(text, [&](std::string_view line, int number) {
    if (!line.empty()) rows.Read(line, number);
  });
  return rows.Take();
}

}  // namespace scheduler::io
