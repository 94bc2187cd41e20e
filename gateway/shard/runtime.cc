#include "gateway/shard/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <tuple>

#include "conf/text.h"
#include "gateway/config/device_kinds.h"
#include "gateway/people/jwks.h"
#include "gateway/shard/endpoint_fields.h"

namespace gateway {
namespace {

namespace limits = router::limits;

// No tenant's path begins like this.
const std::string kSharedDomain = "/";

limits::Period PeriodOf(config::Period period) {
  switch (period) {
    case config::Period::kDay:
      return limits::Period::kDay;
    case config::Period::kWeek:
      return limits::Period::kWeek;
    case config::Period::kMonth:
      return limits::Period::kMonth;
  }
  return limits::Period::kMonth;
}

limits::Price PriceOf(const config::Price& price) {
  return {.input = price.input.value_or(0),
          .cached_input = price.cached_input.value_or(0),
          .output = price.output.value_or(0),
          .cache_write = price.cache_write.value_or(0),
          .image = price.image.value_or(0),
          .audio_second = price.audio_second.value_or(0),
          .characters = price.characters.value_or(0)};
}

// Only the control loop knows the kinds of devices that were found. A model that takes any kind counts as having
// devices of all kinds that budgets name.
void AddKindsOfBudgets(const Config& config, std::span<const scheduler::DeviceAsk> asks,
                       std::vector<std::string>& kinds) {
  const auto any = [](const scheduler::DeviceAsk& ask) { return ask.kinds.empty(); };
  if (std::ranges::none_of(asks, any)) return;
  std::set<std::string> all(kinds.begin(), kinds.end());
  all.insert("*");  // for budgets of devices of all kinds
  for (const config::Tenant& tenant : config.tenants) {
    for (const config::Budget& budget : tenant.budgets) {
      if (!budget.device.empty()) all.insert(budget.device);
    }
  }
  kinds.assign(all.begin(), all.end());
}

uint8_t MaskOf(const config::Fallback& fallback) {
  unsigned mask = 0;
  if (fallback.When(config::FallbackOn::kUnavailable)) mask |= router::kOnUnavailable;
  if (fallback.When(config::FallbackOn::kOverloaded)) mask |= router::kOnOverloaded;
  if (fallback.When(config::FallbackOn::kTimeout)) mask |= router::kOnTimeout;
  if (fallback.When(config::FallbackOn::kContext)) mask |= router::kOnContext;
  return static_cast<uint8_t>(mask);
}

router::ReplicaSpec SpecOf(const config::Model& model, const config::Endpoint& endpoint) {
  router::ReplicaSpec replica;
  replica.identity = model.name + "@" + endpoint.name;
  replica.url = ToString(endpoint.url);
  replica.engine = std::string(Name(endpoint.engine));
  replica.upstream_model = endpoint.model;
  replica.weight = endpoint.weight;
  replica.zone = endpoint.zone;
  replica.track = endpoint.track;
  replica.role = endpoint.role;
  replica.headroom_known = config::IsEngine(endpoint.engine);
  return replica;
}

router::ModelSpec SpecOf(const config::Model& model) {
  router::ModelSpec spec;
  spec.name = model.name;
  spec.aliases = model.aliases;
  if (model.lora) {
    spec.base = model.lora->base;
    spec.adapter = model.lora->adapter;
    spec.adapter_at_run_time = model.lora->at_run_time;
  }
  spec.policy = model.routing.policy;
  spec.cost = model.routing.cost;
  spec.epp = model.routing.epp;
  spec.cache_aware = model.routing.cache_aware;
  spec.consistent_hash = model.routing.consistent_hash;
  for (const config::Canary& canary : model.routing.canaries)
    spec.canaries.push_back({canary.track, canary.percent, canary.of_rollout});
  if (model.routing.sticky) spec.sticky_for = model.routing.sticky->ttl;
  for (const config::Fallback& fallback : model.fallbacks)
    spec.fallbacks.push_back({fallback.model, MaskOf(fallback)});
  spec.timeouts = {model.timeouts.connect, model.timeouts.first_byte, model.timeouts.idle,
                   model.timeouts.total};
  spec.retry.max_retries = model.retries.max;
  spec.retry.budget.share = model.retries.budget;
  spec.retry.budget.min_per_minute = model.retries.min_per_minute;
  spec.retry.backoff = model.retries.backoff;
  spec.retry.max_backoff = model.retries.max_backoff;
  spec.breaker.consecutive_failures = model.breaker.failures;
  spec.breaker.open_for = model.breaker.open;
  spec.breaker.max_open_for = model.breaker.max_open;
  spec.breaker.trials = model.breaker.probes;
  spec.health.interval = model.health.interval;
  spec.health.rise = model.health.rise;
  spec.health.fall = model.health.fall;
  spec.outliers = {.hung_after = model.watch.hung_after,
                   .slow_factor = model.watch.slow_factor,
                   .slow_for = model.watch.slow_for,
                   .eject = model.watch.eject,
                   .max_eject = model.watch.max_eject,
                   .slow_start = model.watch.slow_start};
  const std::optional<config::Queue> queue = config::QueueOf(model);
  if (queue) {
    spec.headroom = {.busy_for = queue->busy_for,
                     .max_running = static_cast<double>(queue->max_running.value_or(0)),
                     .spare_token_time = queue->batch_token_time.value_or(conf::Duration::zero())};
  }
  spec.prefill_transfer = config::HandoverOf(model);
  if (model.max_output_tokens) spec.max_output = *model.max_output_tokens;
  spec.discovers = config::DiscoversEndpoints(model);
  return spec;
}

void AppendField(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// All endpoints of a model with the same files share one context: a source may have a thousand addresses.
class TlsContexts {
 public:
  absl::StatusOr<std::shared_ptr<const net::TlsContext>> Get(const config::ClientTls& tls) {
    std::shared_ptr<const net::TlsContext>& known =
        by_files_[{tls.ca, tls.certificate, tls.key, tls.insecure_skip_verify}];
    if (known) return known;
    auto context = net::TlsContext::Client({tls.ca, tls.certificate, tls.key, !tls.insecure_skip_verify});
    if (!context.ok()) return context.status();
    known = *std::move(context);
    return known;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string, bool>, std::shared_ptr<const net::TlsContext>>
      by_files_;
};

absl::StatusOr<ReplicaRuntime> BuildReplica(const config::Endpoint& endpoint, TlsContexts& contexts) {
  ReplicaRuntime replica{
      .config = &endpoint, .pool_key = {}, .remote = {}, .fields = {}, .passed = PassedFields(endpoint)};
  replica.remote.host = endpoint.url.host;
  replica.remote.port = std::to_string(endpoint.url.port);
  if (endpoint.url.tls()) {
    const config::ClientTls& tls = endpoint.tls;
    auto context = contexts.Get(tls);
    if (!context.ok()) return context.status();
    replica.remote.tls = *std::move(context);
    replica.remote.server_name = tls.server_name;
  }
  // All models behind one address share its connections. The TLS context is a part of the key, because a reload
  // renews it.
  replica.pool_key = fmt::format("{}|{}|{}", ToString(endpoint.url), replica.remote.server_name,
                                 fmt::ptr(replica.remote.tls.get()));
  AppendField(replica.fields, "host",
              endpoint.authority.empty() ? endpoint.url.authority() : endpoint.authority);
  for (const auto& [name, value] : FieldsOf(endpoint)) AppendField(replica.fields, name, value);
  return replica;
}

std::vector<bool> ModelsMatching(const router::RouteTable& routes, const std::vector<std::string>& patterns) {
  std::vector<bool> allowed(routes.models().size());
  for (size_t i = 0; i < allowed.size(); ++i) {
    const router::ModelSpec& spec = routes.models()[i].spec;
    for (const std::string& pattern : patterns) {
      allowed[i] = allowed[i] || config::GlobMatches(pattern, spec.name);
      for (const std::string& alias : spec.aliases)
        allowed[i] = allowed[i] || config::GlobMatches(pattern, alias);
    }
  }
  return allowed;
}

void AddLimits(const config::Limits& from, const std::string& model, std::vector<limits::LimitSpec>& to) {
  const auto add = [&](limits::Dimension dimension, const auto& capacity) {
    if (capacity) to.push_back({dimension, static_cast<int64_t>(*capacity), limits::Period::kDay, model});
  };
  add(limits::Dimension::kRequests, from.requests_per_minute);
  add(limits::Dimension::kTokens, from.tokens_per_minute);
  add(limits::Dimension::kInputTokens, from.input_tokens_per_minute);
  add(limits::Dimension::kOutputTokens, from.output_tokens_per_minute);
  add(limits::Dimension::kConcurrency, from.concurrency);
}

}  // namespace

std::shared_ptr<router::TokenEstimate> TokenEstimates::Get(const std::string& model) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<router::TokenEstimate>& estimate = by_model_[model];
  if (!estimate) estimate = std::make_shared<router::TokenEstimate>();
  return estimate;
}

absl::StatusOr<std::shared_ptr<const Runtime>> Runtime::Build(Config config, const Learned& learned,
                                                              conf::TimePoint now, const Launched& launched) {
  std::shared_ptr<Runtime> runtime(new Runtime);
  runtime->configured_ = std::make_shared<const Config>(std::move(config));
  runtime->config_ = runtime->configured_;
  runtime->hash_ = Hash(*runtime->config_);
  runtime->loaded_at_ = now;
  TlsContexts contexts;
  for (const config::Model& model : runtime->config_->models) {
    for (const config::Endpoint& endpoint : model.endpoints) {
      if (endpoint.discovery) continue;
      auto replica = BuildReplica(endpoint, contexts);
      if (!replica.ok()) return replica.status();
      runtime->connections_.emplace(&endpoint, *std::move(replica));
    }
  }
  auto issuers = BuildIssuers(runtime->config_->auth.jwt);
  if (!issuers.ok()) return issuers.status();
  runtime->issuers_ = *std::move(issuers);
  if (absl::Status assembled = runtime->Assemble(launched, learned); !assembled.ok()) return assembled;
  return runtime;
}

absl::StatusOr<std::shared_ptr<const Runtime>> Runtime::With(const Launched& launched,
                                                             const Learned& learned) const {
  std::shared_ptr<Runtime> runtime(new Runtime);
  runtime->configured_ = configured_;
  runtime->config_ = config_;
  runtime->hash_ = hash_;
  runtime->loaded_at_ = loaded_at_;
  runtime->connections_ = connections_;
  runtime->issuers_ = issuers_;
  if (absl::Status assembled = runtime->Assemble(launched, learned, this); !assembled.ok()) return assembled;
  return runtime;
}

conf::Duration ModelRuntime::cold_wait() const {
  if (policy != nullptr) return policy->scaling.hold;
  return queue ? queue->max_wait : conf::Duration();
}

conf::Duration ModelRuntime::cold_heartbeat() const {
  return policy != nullptr ? policy->scaling.heartbeat : conf::Duration();
}

std::optional<std::string> ModelRuntime::WhyPaused() const {
  for (const std::shared_ptr<const ModelSwitch>& own : switches) {
    if (!own->paused()) continue;
    const std::string why = own->why();
    return fmt::format("{} takes no new requests: an operator has paused it{}{}", config->name,
                       why.empty() ? "" : ": ", why);
  }
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<const Runtime>> Runtime::WithInForce(InForce in_force,
                                                                    const Launched& launched,
                                                                    const Learned& learned) const {
  std::shared_ptr<Runtime> runtime(new Runtime);
  auto config = std::make_shared<Config>(*configured_);
  config->tenants = std::move(in_force.tenants);
  for (const config::ShareOfVersion& share : in_force.shares) {
    const auto model = std::ranges::find(config->models, share.model, &config::Model::name);
    if (model == config->models.end() || !model->routing.canaries.empty()) continue;
    model->routing.canaries.push_back(
        {.track = share.version, .percent = share.percent, .header = {}, .value = {}, .of_rollout = true});
  }
  if (!in_force.shares.empty()) config::TakeFromBases(config->models);
  config::AddRunTimeAdapters(config->models, in_force.adapters);
  runtime->configured_ = configured_;
  runtime->config_ = config;
  runtime->hash_ = hash_;
  runtime->loaded_at_ = loaded_at_;
  runtime->issuers_ = issuers_;
  for (size_t m = 0; m < config->models.size(); ++m) {
    for (size_t e = 0; e < config->models[m].endpoints.size(); ++e) {
      const config::Endpoint& endpoint = config->models[m].endpoints[e];
      if (endpoint.discovery) continue;
      ReplicaRuntime replica = connections_.at(&config_->models[m].endpoints[e]);
      replica.config = &endpoint;
      runtime->connections_.emplace(&endpoint, std::move(replica));
    }
  }
  if (absl::Status assembled = runtime->Assemble(launched, learned, this); !assembled.ok()) return assembled;
  return runtime;
}

absl::Status Runtime::Assemble(const Launched& launched, const Learned& learned, const Runtime* before) {
  const Config& c = *config_;
  launched_ = launched;
  TlsContexts contexts;
  std::vector<router::ModelSpec> specs;
  specs.reserve(c.models.size());
  for (const config::Model& model : c.models) {
    router::ModelSpec& spec = specs.emplace_back(SpecOf(model));
    spec.breaker.several_callers = c.tenants.size() > 1;
    const auto add = [&](const config::Endpoint& endpoint, ReplicaRuntime replica) {
      spec.replicas.push_back(SpecOf(model, endpoint));
      replicas_.push_back(std::move(replica));
    };
    for (const config::Endpoint& endpoint : model.endpoints) {
      if (!endpoint.discovery) add(endpoint, connections_.at(&endpoint));
    }
    const auto more = launched_.find(model.name);
    if (more == launched_.end()) continue;
    spec.launches = true;
    for (const std::shared_ptr<const config::Endpoint>& endpoint : more->second) {
      const auto known = before == nullptr ? added_.end() : before->added_.find(endpoint.get());
      if (before != nullptr && known != before->added_.end()) {
        added_.emplace(endpoint.get(), replicas_.size());
        add(*endpoint, before->replicas_[known->second]);
        continue;
      }
      auto replica = BuildReplica(*endpoint, contexts);
      if (!replica.ok()) return replica.status();
      added_.emplace(endpoint.get(), replicas_.size());
      add(*endpoint, *std::move(replica));
    }
  }
  auto routes = router::RouteTable::Build(std::move(specs), c.server.zone);
  if (!routes.ok()) return routes.status();
  routes_ = *std::move(routes);
  load_ = std::make_unique<router::LoadView>(routes_, learned.replicas);

  for (const config::Model& model : c.models) {
    // A request for an adapter waits in the queue of its base, whose replicas serve it.
    const std::string& serves = model.lora ? model.lora->base : model.name;
    ModelRuntime& made = models_.emplace_back(
        ModelRuntime{&model, learned.limits.Model(model.name), PriceOf(config::PriceOf(model, false)),
                     PriceOf(config::PriceOf(model, true)), learned.estimates.Get(model.name),
                     config::QueueOf(model), learned.queues.Get(serves)});
    for (const config::Model* of : {&model, model.lora ? c.FindModel(model.lora->base) : nullptr}) {
      if (of != nullptr && !of->parameters.empty()) made.parameters.push_back(&of->parameters);
    }
    made.switches.push_back(learned.switches.Get(model.name));
    if (model.lora) made.switches.push_back(learned.switches.Get(serves));
    const config::Model* const server = model.lora ? c.FindModel(model.lora->base) : &model;
    const std::optional<ModelId> id = routes_.Find(serves);
    made.awaits_discovery = made.queue && server != nullptr && config::DiscoversEndpoints(*server) && id &&
                            std::ranges::none_of(routes_.replicas(*id), [](const router::Replica& replica) {
                              return replica.spec.track.empty() && replica.spec.weight > 0;
                            });
    made.policy = c.scaling ? c.scaling->Find(serves) : nullptr;
    if (made.policy == nullptr) continue;
    made.hints = learned.scaling_hints.Get(serves);
    std::vector<scheduler::DeviceAsk> asks;
    asks.reserve(made.policy->placement.devices.size());
    for (const config::DeviceNeed& need : made.policy->placement.devices) asks.push_back(need.ask);
    made.devices = config::KindsOf(c.scaling->nodes, asks);
    if (config::FindsNodes(*c.scaling)) AddKindsOfBudgets(c, asks, made.devices);
  }
  AddTenants();
  CollectNames();
  return absl::OkStatus();
}

void Runtime::CollectNames() {
  names_.zone = config_->server.zone;
  for (const ModelRuntime& model : models_) {
    names_.models.push_back(model.config->name);
    std::vector<std::string>& bands = names_.bands.emplace_back();
    for (const config::Band& band : model.config->queue.bands) bands.push_back(band.name);
  }
  for (const router::Replica& replica : routes_.replicas()) {
    names_.replicas.push_back(replica.spec.identity);
    names_.endpoints.push_back(this->replica(replica.id).name());
  }
}

// In the file, a parent may come after its children; the check of the configuration has ruled out cycles. A tenant made
// at run time comes after its parent, which it names by a path.
void Runtime::AddTenants() {
  const Config& c = *config_;
  std::function<size_t(const config::Tenant&)> add = [&](const config::Tenant& tenant) {
    for (size_t i = 0; !tenant.at_run_time && i < tenants_.size(); ++i) {
      if (tenants_[i].config == &tenant) return i;
    }
    TenantRuntime made{.config = &tenant,
                       .path = tenant.name,
                       .models = std::vector<bool>(c.models.size()),
                       .apis = config::ApiSet::All(),
                       .parameters = {},
                       .cache_domain = {},
                       .disabled = tenant.disabled,
                       .self_service = tenant.self_service};
    if (!tenant.parent.empty()) {
      const TenantRuntime& parent =
          tenants_[tenant.at_run_time ? tenant_places_.at(tenant.parent) : add(*c.FindTenant(tenant.parent))];
      made.path = parent.path + "/" + tenant.name;
      made.disabled = made.disabled || parent.disabled;
      made.self_service = made.self_service || parent.self_service;
      made.models = parent.models;
      made.apis = parent.apis;
      made.parameters = parent.parameters;
      if (parent.cache_domain.starts_with(kSharedDomain)) made.cache_domain = parent.cache_domain;
    }
    if (!tenant.parameters.empty()) made.parameters.push_back(tenant.parameters);
    if (!tenant.share_prefixes.empty()) made.cache_domain = kSharedDomain + tenant.share_prefixes.front();
    if (made.cache_domain.empty()) made.cache_domain = made.path;
    if (tenant.models) {
      // A child may use the models of its own list that its parent may use.
      std::vector<bool> own = ModelsMatching(routes_, *tenant.models);
      for (size_t i = 0; i < own.size(); ++i) own[i] = own[i] && (tenant.parent.empty() || made.models[i]);
      made.models = std::move(own);
    }
    if (tenant.endpoints) made.apis = made.apis & *tenant.endpoints;
    tenant_places_.emplace(made.path, tenants_.size());
    tenants_.push_back(std::move(made));
    return tenants_.size() - 1;
  };
  for (const config::Tenant& tenant : c.tenants) add(tenant);
  for (size_t i = 0; i < tenants_.size(); ++i) {
    if (!tenants_[i].config->at_run_time) tenant_places_.try_emplace(tenants_[i].config->name, i);
  }
  has_cache_domains_ = std::ranges::any_of(tenants_, [&](const TenantRuntime& tenant) {
    return tenant.cache_domain != tenants_.front().cache_domain;
  });
}

ModelSupply Runtime::SupplyOf(std::string_view model) const {
  const std::optional<ModelId> id = routes_.Find(model);
  return {.routes = routes_, .load = *load_, .model = id, .may_start = id && MayStartReplica(*id)};
}

const TenantRuntime* Runtime::FindTenant(std::string_view name_or_path) const {
  const auto place = tenant_places_.find(conf::Abseil(name_or_path));
  return place == tenant_places_.end() ? nullptr : &tenants_[place->second];
}

std::vector<limits::NodeSpec> Runtime::LimitNodes() const {
  std::vector<limits::NodeSpec> nodes;
  for (const TenantRuntime& tenant : tenants_) {
    limits::NodeSpec node{tenant.path, {}};
    AddLimits(tenant.config->limits, "", node.limits);
    for (const auto& [model, per_model] : tenant.config->per_model) {
      const config::Model* found = config_->FindModel(model);
      AddLimits(per_model, found ? found->name : model, node.limits);
    }
    for (const config::Budget& budget : tenant.config->budgets) {
      const limits::Period period = PeriodOf(budget.period);
      if (budget.device_hours) {
        constexpr double kHour = 3'600'000;  // ms
        node.limits.push_back({limits::Dimension::kDeviceBudget, std::llround(*budget.device_hours * kHour),
                               period, budget.model, budget.device});
      }
      if (budget.micro_usd)
        node.limits.push_back({limits::Dimension::kBudget, *budget.micro_usd, period, budget.model});
      if (budget.tokens) {
        node.limits.push_back(
            {limits::Dimension::kTokenBudget, static_cast<int64_t>(*budget.tokens), period, budget.model});
      }
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace gateway
