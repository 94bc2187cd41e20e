#include "gateway/config/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "gateway/config/names.h"

namespace gateway::config {
namespace {

const Model* Find(const std::vector<Model>& models, std::string_view name) {
  const auto found = std::ranges::find(models, name, &Model::name);
  return found == models.end() ? nullptr : &*found;
}

// Of the base that model `m` names: empty where it can serve adapters.
std::string WhyNoBase(const std::vector<Model>& models, size_t m) {
  const std::string& name = models[m].lora->base;
  const Names names = ModelNames(models);
  if (name == models[m].name) return "is the model itself; name the model whose endpoints serve it";
  const Model* const base = Find(models, name);
  if (base == nullptr) {
    if (!names.complete()) return {};
    return fmt::format("unknown model \"{}\"{}", name, names.Hint(name));
  }
  if (base->lora)
    return fmt::format("\"{}\" is an adapter itself; name its base, \"{}\"", name, base->lora->base);
  const auto none = std::ranges::find_if(
      base->endpoints, [](const Endpoint& endpoint) { return !ServesAdapters(endpoint.engine); });
  if (none == base->endpoints.end()) return {};
  return fmt::format(
      "endpoint {} of \"{}\" is {}, which serves no adapter by its name; the base's endpoints must all be of "
      "vllm, sglang, tgi or chat-only",
      none->name, name, Name(none->engine));
}

}  // namespace

void CheckAdapters(conf::Document& document, const std::vector<Model>& models) {
  for (size_t m = 0; m < models.size(); ++m) {
    if (!models[m].adapters) continue;
    const auto none = std::ranges::find_if(
        models[m].endpoints, [](const Endpoint& endpoint) { return !LoadsAdapters(endpoint.engine); });
    if (none == models[m].endpoints.end()) continue;
    document.AddAt(
        fmt::format("/models/{}/adapters", m), "",
        fmt::format("endpoint {} is {}, which loads no adapter while it runs; the endpoints must all be "
                    "of vllm or sglang",
                    none->name, Name(none->engine)));
  }
  std::map<std::pair<std::string, std::string>, size_t> adapters;
  for (size_t m = 0; m < models.size(); ++m) {
    if (!models[m].lora || models[m].lora->base.empty()) continue;
    const Lora& lora = *models[m].lora;
    if (const std::string wrong = WhyNoBase(models, m); !wrong.empty()) {
      document.AddAt(fmt::format("/models/{}/lora/base", m), lora.base, wrong);
      continue;
    }
    const std::string pointer = fmt::format("/models/{}/lora/adapter", m);
    if (const auto [first, added] = adapters.try_emplace({lora.base, lora.adapter}, m); !added) {
      document.AddAt(pointer, lora.adapter,
                     fmt::format("adapter \"{}\" of \"{}\" is given twice, first as /models/{}; give that an "
                                 "alias instead",
                                 lora.adapter, lora.base, first->second));
    }
    const Model* const base = Find(models, lora.base);
    const bool is_base = base != nullptr && std::ranges::find(base->endpoints, lora.adapter,
                                                              &Endpoint::model) != base->endpoints.end();
    if (is_base) {
      document.AddAt(pointer, lora.adapter,
                     fmt::format("is the base model's name at an endpoint of \"{}\"; give the adapter's "
                                 "name there",
                                 lora.base));
    }
  }
}

void TakeFromBases(std::vector<Model>& models) {
  for (Model& model : models) {
    if (!model.lora) continue;
    const Model& base = *Find(models, model.lora->base);
    model.routing = base.routing;
    model.timeouts = base.timeouts;
    model.retries = base.retries;
    model.breaker = base.breaker;
    model.health = base.health;
    model.watch = base.watch;
    model.queue = base.queue;
    model.translate = base.translate;
    if (!model.lora->own_price) {
      model.price = base.price;
      if (!model.batch_price) model.batch_price = base.batch_price;
      model.unpriced = base.unpriced;
    }
    if (!model.context) model.context = base.context;
    if (!model.max_output_tokens) model.max_output_tokens = base.max_output_tokens;
  }
}

std::string ModelOfAdapter(const std::vector<Model>& configured, const RunTimeAdapter& adapter) {
  const auto base = std::ranges::find(configured, adapter.base, &Model::name);
  if (base == configured.end() || !base->adapters || base->lora) return {};
  for (const Model& model : configured) {
    if (model.lora && model.lora->base == adapter.base && model.lora->adapter == adapter.name)
      return model.name;
  }
  const bool taken = std::ranges::any_of(configured, [&](const Model& model) {
    return model.name == adapter.name ||
           std::ranges::find(model.aliases, adapter.name) != model.aliases.end();
  });
  return taken ? std::string() : adapter.name;
}

void AddRunTimeAdapters(std::vector<Model>& models, const std::vector<RunTimeAdapter>& adapters) {
  const std::vector<Model> configured = models;
  for (const RunTimeAdapter& adapter : adapters) {
    const std::string name = ModelOfAdapter(configured, adapter);
    if (name.empty()) continue;
    if (const auto known = std::ranges::find(models, name, &Model::name); known != models.end()) {
      if (known->lora) known->lora->at_run_time = true;
      continue;
    }
    Model model;
    model.name = name;
    model.lora = Lora{.base = adapter.base, .adapter = adapter.name, .own_price = false, .at_run_time = true};
    models.push_back(std::move(model));
  }
  if (!adapters.empty()) TakeFromBases(models);
}

}  // namespace gateway::config
