#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "gateway/config/adapters.h"
#include "gateway/config/check.h"
#include "gateway/config/names.h"

namespace gateway::config {
namespace {

// The first owner of a name: a model by its own name, or by an alias.
struct Claim {
  size_t model;
  bool alias;
};

void CheckNames(conf::Document& document, const std::vector<Model>& models) {
  std::map<std::string, Claim> claims;
  for (size_t m = 0; m < models.size(); ++m) {
    if (models[m].name.empty()) continue;
    const auto [first, added] = claims.try_emplace(models[m].name, Claim{m, false});
    if (added) continue;
    document.AddAt(
        fmt::format("/models/{}/name", m), models[m].name,
        fmt::format("model \"{}\" is given twice, first at /models/{}; list its replicas as endpoints of one",
                    models[m].name, first->second.model));
  }
  for (size_t m = 0; m < models.size(); ++m) {
    for (size_t a = 0; a < models[m].aliases.size(); ++a) {
      const std::string& alias = models[m].aliases[a];
      const std::string pointer = fmt::format("/models/{}/aliases/{}", m, a);
      if (const std::string wrong = ValidName()(alias); !wrong.empty()) {
        document.AddAt(pointer, alias, wrong);
        continue;
      }
      const auto [first, added] = claims.try_emplace(alias, Claim{m, true});
      if (added) continue;
      document.AddAt(pointer, alias,
                     fmt::format("alias \"{}\" is {} /models/{} already", alias,
                                 first->second.alias ? "an alias of" : "the name of", first->second.model));
    }
  }
}

void CheckEndpoints(conf::Document& document, size_t m, const std::vector<Endpoint>& endpoints) {
  std::map<std::string, size_t> names;
  std::map<std::tuple<std::string, std::string>, size_t> targets;
  uint64_t weights = 0;
  for (size_t e = 0; e < endpoints.size(); ++e) {
    const Endpoint& endpoint = endpoints[e];
    if (endpoint.track.empty()) weights += endpoint.weight;
    if (endpoint.url.empty() && !endpoint.discovery) continue;
    const std::string target = endpoint.discovery ? SourceOf(*endpoint.discovery) : ToString(endpoint.url);
    const auto [same, new_target] = targets.try_emplace({target, endpoint.model}, e);
    if (!new_target) {
      document.AddAt(
          fmt::format("/models/{}/endpoints/{}{}", m, e, endpoint.discovery ? "" : "/url"), target,
          fmt::format("{} is listed twice, first at /models/{}/endpoints/{}; use weight to prefer it", target,
                      m, same->second));
      continue;
    }
    const auto [first, new_name] = names.try_emplace(endpoint.name, e);
    if (new_name || endpoint.name.empty()) continue;
    document.AddAt(fmt::format("/models/{}/endpoints/{}/name", m, e), endpoint.name,
                   fmt::format("endpoint \"{}\" is given twice, first at /models/{}/endpoints/{}",
                               endpoint.name, m, first->second));
  }
  if (!endpoints.empty() && weights == 0) {
    document.AddAt(fmt::format("/models/{}/endpoints", m), "",
                   "the weights sum to zero; give one endpoint without a track at least 1");
  }
}

// Reports each cycle once, at the fallback that closes it when it is walked from its first model.
class Cycles {
 public:
  Cycles(conf::Document& document, const std::vector<Model>& models) : document_(document), models_(models) {
    for (size_t m = 0; m < models.size(); ++m) index_.try_emplace(models[m].name, m);
    state_.resize(models.size(), State::kNew);
  }

  // Depth first, on a stack of its own: a chain is as long as the file has models.
  void Report() {
    for (size_t m = 0; m < models_.size(); ++m) {
      if (state_[m] == State::kNew) Walk(m);
    }
  }

 private:
  enum class State : uint8_t { kNew, kOpen, kDone };
  struct Step {
    size_t model;
    size_t next;
  };

  void Walk(size_t start) {
    std::vector<Step> path{{start, 0}};
    state_[start] = State::kOpen;
    while (!path.empty()) {
      const size_t m = path.back().model;
      const size_t f = path.back().next++;
      if (f >= models_[m].fallbacks.size()) {
        state_[m] = State::kDone;
        path.pop_back();
        continue;
      }
      const auto target = index_.find(models_[m].fallbacks[f].model);
      if (target == index_.end()) continue;
      if (state_[target->second] == State::kOpen) ReportCycle(path, target->second, m, f);
      if (state_[target->second] != State::kNew) continue;
      state_[target->second] = State::kOpen;
      path.push_back({target->second, 0});
    }
  }

  void ReportCycle(const std::vector<Step>& path, size_t closes, size_t m, size_t f) {
    std::string chain;
    bool inside = false;
    for (const Step& step : path) {
      inside = inside || step.model == closes;
      if (inside) chain += models_[step.model].name + " -> ";
    }
    document_.AddAt(fmt::format("/models/{}/fallbacks/{}", m, f), models_[closes].name,
                    fmt::format("closes a cycle of fallbacks: {}{}", chain, models_[closes].name));
  }

  conf::Document& document_;
  const std::vector<Model>& models_;
  std::map<std::string, size_t> index_;
  std::vector<State> state_;
};

void CheckFallbacks(conf::Document& document, const std::vector<Model>& models) {
  const Names names = ModelNames(models);
  for (size_t m = 0; m < models.size(); ++m) {
    std::set<std::string> seen;
    for (size_t f = 0; f < models[m].fallbacks.size(); ++f) {
      const std::string& model = models[m].fallbacks[f].model;
      const std::string pointer = fmt::format("/models/{}/fallbacks/{}", m, f);
      if (model.empty()) continue;
      if (!names.Has(model)) {
        if (names.complete()) {
          document.AddAt(pointer, model, fmt::format("unknown model \"{}\"{}", model, names.Hint(model)));
        }
      } else if (!seen.insert(model).second) {
        document.AddAt(pointer, model, fmt::format("model \"{}\" is given twice", model));
      }
    }
  }
}

}  // namespace

void CheckModels(conf::Document& document, const Config& config) {
  CheckNames(document, config.models);
  for (size_t m = 0; m < config.models.size(); ++m) CheckEndpoints(document, m, config.models[m].endpoints);
  CheckFallbacks(document, config.models);
  CheckAdapters(document, config.models);
  Cycles(document, config.models).Report();
}

}  // namespace gateway::config
