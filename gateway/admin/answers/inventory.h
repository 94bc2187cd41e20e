// Answers of the admin API about the configured tenants, models, endpoints and limits.
#pragma once

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/admin/answers/model_order.h"

namespace gateway::admin::answers {

struct Tenant {
  static constexpr std::string_view kSchema = "Tenant";

  std::string path;
  std::string name;
  std::optional<std::string> parent;
  std::vector<std::string> models = {};
  std::vector<std::string_view> endpoints = {};
  std::string priority;
  uint32_t weight = 0;
  std::string_view store_content;            // none, prompts, full
  bool at_run_time = false;                  // not configured in the file
  std::string_view state;                    // in_force, disabled, not_in_force
  bool self_service = false;                 // tenants can be made below it, and members added to it
  bool may_change = false;                   // the caller may change, disable and remove it
  bool may_add = false;                      // the caller may make tenants below it and change its members
  std::optional<conf::RawJson> limits = {};  // its own, without grants; absent: none
  std::optional<std::string> made_by = {};
  std::optional<Time> made = {};
};

template <class O>
constexpr void Bind(O& o, Tenant& tenant) {
  o.Required("path", tenant.path);
  o.Required("name", tenant.name);
  o.Required("parent", tenant.parent);
  o.Required("models", tenant.models);
  o.Required("endpoints", tenant.endpoints);
  o.Required("priority", tenant.priority);
  o.Required("weight", tenant.weight);
  o.Required("store_content", tenant.store_content);
  o.Required("at_run_time", tenant.at_run_time);
  o.Required("state", tenant.state);
  o.Required("self_service", tenant.self_service);
  o.Required("may_change", tenant.may_change);
  o.Required("may_add", tenant.may_add);
  o.Optional("limits", tenant.limits);
  o.Required("made_by", tenant.made_by);
  o.Required("made", tenant.made);
}

// In USD, as in the configuration; null where there is none.
struct Price {
  static constexpr std::string_view kSchema = "Price";

  std::optional<std::string> input, cached_input, cache_write, output, image, audio_second, characters;
};

template <class O>
constexpr void Bind(O& o, Price& price) {
  o.Required("input", price.input);
  o.Required("cached_input", price.cached_input);
  o.Required("cache_write", price.cache_write);
  o.Required("output", price.output);
  o.Required("image", price.image);
  o.Required("audio_second", price.audio_second);
  o.Required("characters", price.characters);
}

struct Lora {
  static constexpr std::string_view kSchema = "Lora";

  std::string base;
  std::string adapter;
};

template <class O>
constexpr void Bind(O& o, Lora& lora) {
  o.Required("base", lora.base);
  o.Required("adapter", lora.adapter);
}

struct Model {
  static constexpr std::string_view kSchema = "Model";

  std::string name;
  std::vector<std::string> aliases;
  std::string_view routing;
  Price price;
  std::optional<Price> batch_price;  // null: as price
  std::optional<int64_t> context;    // tokens
  std::optional<int64_t> max_output_tokens;
  std::vector<std::string> endpoints;
  std::optional<Lora> lora;
  std::vector<std::string> fallbacks;
  std::optional<ModelOrder> paused;  // null: it takes new requests
  std::optional<ModelOrder> held;    // null: the autoscaler decides
  bool loads_adapters = false;       // operators may load LoRA adapters of it at run time
};

template <class O>
constexpr void Bind(O& o, Model& model) {
  o.Required("name", model.name);
  o.Required("aliases", model.aliases);
  o.Required("routing", model.routing);
  o.Required("price", model.price);
  o.Required("batch_price", model.batch_price);
  o.Required("context", model.context);
  o.Required("max_output_tokens", model.max_output_tokens);
  o.Required("endpoints", model.endpoints);
  o.Required("lora", model.lora);
  o.Required("fallbacks", model.fallbacks);
  o.Required("paused", model.paused);
  o.Required("held", model.held);
  o.Required("loads_adapters", model.loads_adapters);
}

// The configured ones at one endpoint, by their names at the engine, and how many others are there.
struct Adapters {
  static constexpr std::string_view kSchema = "Adapters";

  std::vector<std::string> loaded;
  std::vector<std::string> loading;
  std::vector<std::string> lacking;
  uint64_t others = 0;
  std::optional<uint64_t> slots;
  std::optional<double> load_ms;
};

template <class O>
constexpr void Bind(O& o, Adapters& adapters) {
  o.Required("loaded", adapters.loaded);
  o.Required("loading", adapters.loading);
  o.Required("lacking", adapters.lacking);
  o.Required("others", adapters.others);
  o.Required("slots", adapters.slots);
  o.Required("load_ms", adapters.load_ms);
}

struct Endpoint {
  static constexpr std::string_view kSchema = "Endpoint";

  std::string id;
  std::string model;
  std::string name;
  std::string url;
  std::optional<std::string> source;  // where it was found; null: it is configured, or was started here
  std::string_view engine;
  std::string_view role;
  uint32_t weight = 0;
  std::vector<std::string_view> endpoints;
  std::string_view health;
  std::string_view breaker;
  bool resting = false;
  std::string_view standing;
  std::optional<std::string> unused_because;
  int64_t outstanding_requests = 0;
  int64_t outstanding_tokens = 0;
  std::optional<Adapters> adapters;
  std::optional<std::string> kv_events;
};

template <class O>
constexpr void Bind(O& o, Endpoint& endpoint) {
  o.Required("id", endpoint.id);
  o.Required("model", endpoint.model);
  o.Required("name", endpoint.name);
  o.Required("url", endpoint.url);
  o.Required("source", endpoint.source);
  o.Required("engine", endpoint.engine);
  o.Required("role", endpoint.role);
  o.Required("weight", endpoint.weight);
  o.Required("endpoints", endpoint.endpoints);
  o.Required("health", endpoint.health);
  o.Required("breaker", endpoint.breaker);
  o.Required("resting", endpoint.resting);
  o.Required("standing", endpoint.standing);
  o.Required("unused_because", endpoint.unused_because);
  o.Required("outstanding_requests", endpoint.outstanding_requests);
  o.Required("outstanding_tokens", endpoint.outstanding_tokens);
  o.Required("adapters", endpoint.adapters);
  o.Required("kv_events", endpoint.kv_events);
}

struct Limit {
  static constexpr std::string_view kSchema = "Limit";

  std::string id;
  std::string scope;
  std::string limit;
  std::optional<std::string> model;
  std::optional<std::string> device;
  std::string_view unit;  // micro_usd, device_milliseconds, count
  int64_t capacity = 0;
  int64_t share = 0;
  int64_t used = 0;
  int64_t reserved = 0;
  int64_t remaining = 0;
  uint64_t refused_requests = 0;
  uint64_t overrun = 0;
  std::optional<Time> period_start;
  std::optional<Time> period_end;
  std::optional<double> per_hour;         // of a budget: how fast it is used, in its unit
  std::optional<Time> used_up;            // of a budget, at this rate; null: it lasts
  std::vector<uint32_t> thresholds = {};  // of a budget: in percent, told when they are reached
};

template <class O>
constexpr void Bind(O& o, Limit& limit) {
  o.Required("id", limit.id);
  o.Required("scope", limit.scope);
  o.Required("limit", limit.limit);
  o.Required("model", limit.model);
  o.Required("device", limit.device);
  o.Required("unit", limit.unit);
  o.Required("capacity", limit.capacity);
  o.Required("share", limit.share);
  o.Required("used", limit.used);
  o.Required("reserved", limit.reserved);
  o.Required("remaining", limit.remaining);
  o.Required("refused_requests", limit.refused_requests);
  o.Required("overrun", limit.overrun);
  o.Required("period_start", limit.period_start);
  o.Required("period_end", limit.period_end);
  o.Required("per_hour", limit.per_hour);
  o.Required("used_up", limit.used_up);
  o.Required("thresholds", limit.thresholds);
}

}  // namespace gateway::admin::answers
