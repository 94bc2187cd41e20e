#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "gateway/config/check.h"
#include "gateway/config/names.h"

namespace gateway::config {
namespace {

// Every level is charged for every request.
constexpr size_t kMaxDepth = 8;

class ModelReferences {
 public:
  ModelReferences(conf::Document& document, const std::vector<Model>& models)
      : document_(document), names_(ModelNames(models)) {
    for (const Model& model : models) {
      for (const std::string& alias : model.aliases) aliases_.try_emplace(alias, model.name);
    }
  }

  void Check(const std::string& pointer, const std::string& name) {
    if (name.empty() || names_.Has(name) || !names_.complete()) return;
    const auto alias = aliases_.find(name);
    if (alias != aliases_.end()) {
      document_.AddAt(pointer, name,
                      fmt::format("\"{}\" is an alias; name the model, \"{}\"", name, alias->second));
    } else {
      document_.AddAt(pointer, name, fmt::format("unknown model \"{}\"{}", name, names_.Hint(name)));
    }
  }

  void CheckPattern(const std::string& pointer, const std::string& pattern) {
    if (pattern.find('*') == std::string::npos) {
      if (pattern.empty()) document_.AddAt(pointer, "", "must not be empty");
      Check(pointer, pattern);
      return;
    }
    if (!names_.complete()) return;
    if (!names_.Matches(pattern)) {
      document_.AddAt(pointer, pattern, fmt::format("\"{}\" matches no model", pattern));
    }
  }

 private:
  conf::Document& document_;
  Names names_;
  std::map<std::string, std::string> aliases_;
};

// Of `acme/search`, from the indices of its names.
size_t PathBytes(const std::vector<Tenant>& tenants, const std::vector<size_t>& path) {
  size_t bytes = path.size() - 1;
  for (const size_t t : path) bytes += tenants[t].name.size();
  return bytes;
}

void CheckParents(conf::Document& document, const std::vector<Tenant>& tenants) {
  const Names names = TenantNames(tenants);
  std::map<std::string, size_t> index;
  for (size_t t = 0; t < tenants.size(); ++t) {
    if (tenants[t].name.empty()) continue;
    const auto [first, added] = index.try_emplace(tenants[t].name, t);
    if (!added) {
      document.AddAt(
          fmt::format("/tenants/{}/name", t), tenants[t].name,
          fmt::format("tenant \"{}\" is given twice, first at /tenants/{}", tenants[t].name, first->second));
    }
  }
  std::vector<bool> in_cycle(tenants.size(), false);
  for (size_t t = 0; t < tenants.size(); ++t) {
    const std::string& parent = tenants[t].parent;
    const std::string pointer = fmt::format("/tenants/{}/parent", t);
    if (!parent.empty() && !index.contains(parent)) {
      if (names.complete()) {
        document.AddAt(pointer, parent, fmt::format("unknown tenant \"{}\"{}", parent, names.Hint(parent)));
      }
      continue;
    }
    std::vector<size_t> path{t};
    std::string chain = tenants[t].name;
    for (auto up = index.find(parent); up != index.end() && path.size() <= kMaxDepth;
         up = index.find(tenants[path.back()].parent)) {
      chain += " -> " + up->first;
      path.push_back(up->second);
      if (up->second == t) break;
    }
    if (path.size() > 1 && path.back() == t) {
      if (!in_cycle[t]) document.AddAt(pointer, parent, "closes a cycle of parents: " + chain);
      for (const size_t member : path) in_cycle[member] = true;
    } else if (path.size() > kMaxDepth) {
      document.AddAt(pointer, parent,
                     fmt::format("nests tenants deeper than {} levels: {}", kMaxDepth, chain));
    } else if (const size_t bytes = PathBytes(tenants, path); bytes > kMaxTenantPath) {
      document.AddAt(
          fmt::format("/tenants/{}/name", t), tenants[t].name,
          fmt::format("with its parents' names, joined by \"/\", it takes {} bytes: must be at most "
                      "{}, which is what a record of the ledger holds",
                      bytes, kMaxTenantPath));
    }
  }
}

}  // namespace

void CheckTenants(conf::Document& document, const Config& config) {
  CheckParents(document, config.tenants);
  ModelReferences models(document, config.models);
  const Names priorities = PriorityNames(config.models);
  for (size_t t = 0; t < config.tenants.size(); ++t) {
    const Tenant& tenant = config.tenants[t];
    const std::string pointer = fmt::format("/tenants/{}", t);
    if (!tenant.models && tenant.parent.empty() && !tenant.name.empty()) {
      document.AddAt(pointer + "/models", "",
                     "is required for a tenant without a parent; \"*\" in a list stands for every model");
    }
    if (!tenant.priority.empty() && !priorities.Has(tenant.priority) && priorities.complete()) {
      document.AddAt(
          pointer + "/priority", tenant.priority,
          fmt::format("unknown priority \"{}\"{}", tenant.priority, priorities.Hint(tenant.priority)));
    }
    if (tenant.models) {
      for (size_t i = 0; i < tenant.models->size(); ++i) {
        models.CheckPattern(fmt::format("{}/models/{}", pointer, i), (*tenant.models)[i]);
      }
    }
    for (const auto& [model, limits] : tenant.per_model) {
      models.Check(conf::JoinPointer(pointer + "/limits/per_model", model), model);
    }
    const bool one_budget = document.Nearest(pointer + "/budget").kind() != conf::Kind::kSequence;
    for (size_t b = 0; b < tenant.budgets.size(); ++b) {
      const std::string budget = one_budget ? pointer + "/budget" : fmt::format("{}/budget/{}", pointer, b);
      models.Check(budget + "/model", tenant.budgets[b].model);
      if (tenant.budgets[b].device_hours && !config.scaling) {
        document.AddAt(budget + "/device_hours", "",
                       "has no effect without a section scaling, which says what runs on devices");
      }
    }
  }
}

}  // namespace gateway::config
