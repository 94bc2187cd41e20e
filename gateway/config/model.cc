#include "gateway/config/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conf/reader.h"
#include "gateway/net/url.h"
#include "plugins/engines/engine_lora.h"

namespace gateway::config {
namespace {

using conf::AtLeast;
using conf::NotEmpty;
using conf::Positive;
using conf::Range;

struct EngineFacts {
  std::string_view word;
  Engine engine;
  ApiSet apis;
  bool health;
};

constexpr ApiSet kSelfHosted = {Api::kChat, Api::kCompletions, Api::kEmbeddings, Api::kRerank,
                                Api::kTokenize};

// The APIs that engines serve under the OpenAI paths today; `apis` of an endpoint overrides it.
constexpr std::array<EngineFacts, 8> kEngineFacts = {{
    {"vllm",
     Engine::kVllm,
     {Api::kChat, Api::kCompletions, Api::kEmbeddings, Api::kResponses, Api::kMessages, Api::kRerank,
      Api::kScore, Api::kAudio, Api::kTokenize},
     true},
    {"sglang",
     Engine::kSglang,
     {Api::kChat, Api::kCompletions, Api::kEmbeddings, Api::kRerank, Api::kScore, Api::kTokenize},
     true},
    {"trtllm", Engine::kTrtllm, {Api::kChat, Api::kCompletions}, true},
    {"tgi", Engine::kTgi, {Api::kChat, Api::kCompletions, Api::kTokenize}, true},
    {"llamacpp", Engine::kLlamacpp, kSelfHosted, true},
    {"openai",
     Engine::kOpenai,
     {Api::kChat, Api::kCompletions, Api::kEmbeddings, Api::kResponses, Api::kAudio, Api::kImages},
     false},
    {"anthropic", Engine::kAnthropic, {Api::kMessages}, false},
    {"chat-only", Engine::kChatOnly, {Api::kChat}, false},
}};

constexpr auto kEngines = [] {
  std::array<std::pair<std::string_view, Engine>, kEngineFacts.size()> words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = {kEngineFacts[i].word, kEngineFacts[i].engine};
  return words;
}();

const EngineFacts& FactsOf(Engine engine) {
  return kEngineFacts[static_cast<size_t>(engine)];
}

constexpr conf::Word<FallbackOn> kConditions[] = {{"unavailable", FallbackOn::kUnavailable},
                                                  {"overloaded", FallbackOn::kOverloaded},
                                                  {"timeout", FallbackOn::kTimeout},
                                                  {"context", FallbackOn::kContext}};

constexpr conf::Word<Unpriced> kUnpricedWords[] = {{"refuse", Unpriced::kRefuse},
                                                   {"allow", Unpriced::kAllow}};

// Of a model, as BindServing and `endpoints` have them.
constexpr std::array<std::string_view, 10> kServing = {"endpoints", "routing", "timeouts", "retries",
                                                       "breaker",   "health",  "watch",    "queue",
                                                       "translate", "adapters"};

constexpr std::string_view kHost = "{host}";  // of a discovered address

bool NamesHost(const KvEvents& events) {
  const bool url = events.url.find(kHost) != std::string::npos;
  return events.replay.empty() ? url : url && events.replay.find(kHost) != std::string::npos;
}

void PutHost(std::string& url, const std::string& host) {
  if (const size_t at = url.find(kHost); at != std::string::npos)
    url.replace(at, kHost.size(), net::Bracketed(host));
}

// Whether a segment of the path is a version, as in `/api/v3` and `/v1beta/openai`.
bool HasVersion(std::string_view path) {
  for (size_t at = path.find("/v"); at != std::string_view::npos; at = path.find("/v", at + 1)) {
    if (at + 2 < path.size() && path[at + 2] >= '0' && path[at + 2] <= '9') return true;
  }
  return false;
}

}  // namespace

static void Bind(conf::Object& o, Price& price) {
  o.Optional("input", conf::Money(price.input));
  o.Optional("cached_input", conf::Money(price.cached_input));
  o.Optional("cache_write", conf::Money(price.cache_write));
  o.Optional("output", conf::Money(price.output));
  o.Optional("image", conf::Money(price.image));
  o.Optional("audio_second", conf::Money(price.audio_second));
  o.Optional("characters", conf::Money(price.characters));
  if (!o.reading()) return;
  if (!o.Has("input")) {
    for (const std::string_view key : {"cached_input", "cache_write", "output"}) {
      if (o.Has(key)) o.Error("needs input beside it, the price of the prompt tokens", key);
    }
    if (!o.Has("image") && !o.Has("audio_second") && !o.Has("characters"))
      o.Error("give input, and output where the model generates text; or image, audio_second or characters");
  }
  if (!price.cached_input) price.cached_input = price.input;
  if (!price.cache_write) price.cache_write = price.input;
}

static void Bind(conf::Object& o, Endpoint& endpoint) {
  o.Optional("name", endpoint.name, ValidName());
  BindDiscovery(o, endpoint.discovery);
  const bool discovers = o.Has("dns") || o.Has("file") || o.Has("kubernetes");
  if (o.reading() && !discovers) {
    o.Required("url", endpoint.url);
  } else {
    o.Optional("url", endpoint.url);
  }
  o.Required("engine", conf::Choice(endpoint.engine, "engine", kEngines));
  o.Optional("model", endpoint.model, NotEmpty());
  o.Optional("weight", endpoint.weight, Range{0U, 1000U});
  o.Optional("zone", endpoint.zone, ValidName());
  o.Optional("track", endpoint.track, ValidName());
  o.Optional("api_key", endpoint.api_key);
  o.Optional("headers", endpoint.headers);
  o.Optional("secret_headers", endpoint.secret_headers);
  o.Optional("pass_headers", HeaderNames{&endpoint.pass_headers});
  o.Optional("tls", endpoint.tls);
  o.Optional("apis", endpoint.apis, NotEmpty());
  o.Optional("kv_events", endpoint.kv_events);
  o.Optional("role", conf::Choice(endpoint.role, "role", kRoles));
  o.Optional("bootstrap_port", endpoint.bootstrap_port, AtLeast{uint16_t{1}});
  if (!o.reading()) return;
  // Clients' libraries want the /v1; here it is part of each request's own path.
  if (endpoint.url.path.ends_with("/v1")) endpoint.url.path.resize(endpoint.url.path.size() - 3);
  if (!o.Has("name") && endpoint.discovery) endpoint.name = DefaultName(*endpoint.discovery);
  if (!o.Has("name") && !endpoint.url.empty()) endpoint.name = endpoint.url.authority() + endpoint.url.path;
  if (endpoint.discovery && endpoint.discovery->scheme == "http" && endpoint.tls != ClientTls())
    o.Error("has no effect with scheme: http", "tls");
  if (!o.Has("apis")) endpoint.apis = DefaultApis(endpoint.engine);
  RefuseIdleTls(o, endpoint.url, endpoint.tls);
  if (endpoint.kv_events && endpoint.engine != Engine::kVllm && endpoint.engine != Engine::kSglang)
    o.Error("is supported for the engines vllm and sglang only", "kv_events");
  if (endpoint.kv_events && endpoint.discovery.has_value() != NamesHost(*endpoint.kv_events)) {
    o.Error(endpoint.discovery
                ? "must name tcp://{host}:PORT in url and replay, for each address that is found"
                : "names {host}, which stands for discovered addresses; name the engine's host",
            "kv_events");
  }
}

static void Bind(conf::Object& o, Timeouts& timeouts) {
  o.Optional("connect", timeouts.connect, Positive());
  o.Optional("first_byte", timeouts.first_byte, Positive());
  o.Optional("idle", timeouts.idle, Positive());
  o.Optional("total", timeouts.total, Positive());
  if (timeouts.connect > timeouts.total) o.Error("must not be longer than total", "connect");
  if (timeouts.first_byte > timeouts.total) o.Error("must not be longer than total", "first_byte");
}

static void Bind(conf::Object& o, Retries& retries) {
  o.Optional("max", retries.max, Range{0U, 10U});
  o.Optional("budget", retries.budget, Range{0.0, 1.0});
  o.Optional("min_per_minute", retries.min_per_minute);
  o.Optional("backoff", retries.backoff, Positive());
  o.Optional("max_backoff", retries.max_backoff, Positive());
  if (retries.backoff > retries.max_backoff) o.Error("must not be longer than max_backoff", "backoff");
}

static void Bind(conf::Object& o, Breaker& breaker) {
  o.Optional("failures", breaker.failures, Range{1U, 1000U});
  o.Optional("open", breaker.open, Positive());
  o.Optional("max_open", breaker.max_open, Positive());
  o.Optional("probes", breaker.probes, Range{1U, 100U});
  if (breaker.open > breaker.max_open) o.Error("must not be longer than max_open", "open");
}

static void Bind(conf::Object& o, Health& health) {
  o.Optional("probe", health.probe);
  o.Optional("path", health.path, AbsolutePath());
  o.Optional("interval", health.interval, AtLeast{conf::Duration(std::chrono::milliseconds(100))});
  o.Optional("timeout", health.timeout, Positive());
  o.Optional("rise", health.rise, Range{1U, 100U});
  o.Optional("fall", health.fall, Range{1U, 100U});
  if (health.timeout > health.interval) o.Error("must not be longer than interval", "timeout");
}

static void Read(const conf::Value& value, FallbackOn& out) {
  conf::Read(value, conf::Choice(out, "condition", kConditions));
}
static void Write(conf::Writer& writer, const FallbackOn& in) {
  conf::Write(writer, std::string(Name(in)));
}

static void Bind(conf::Object& o, Fallback& fallback) {
  o.Required("model", fallback.model, ValidName());
  o.Optional("on", conf::OneOrMany(fallback.on), NotEmpty());
}

// A name alone stands for the usual conditions.
static void Read(const conf::Value& value, Fallback& out) {
  if (value.kind() == conf::Kind::kScalar) {
    conf::Read(value, out.model);
    return;
  }
  conf::Object object(value);
  Bind(object, out);
}

const Price& PriceOf(const Model& model, bool of_batch) {
  return of_batch && model.batch_price ? *model.batch_price : model.price;
}

bool HasPriceFor(const Price& price, router::Api api) {
  switch (api) {
    case router::Api::kChatCompletions:
    case router::Api::kCompletions:
    case router::Api::kResponses:
    case router::Api::kMessages:
      return price.input && price.output;
    case router::Api::kEmbeddings:
    case router::Api::kRerank:
    case router::Api::kScore:
      return price.input.has_value();
    case router::Api::kAudioTranscriptions:
    case router::Api::kAudioTranslations:
      return price.audio_second.has_value();
    case router::Api::kAudioSpeech:
      return price.characters.has_value();
    case router::Api::kImageGenerations:
    case router::Api::kImageEdits:
    case router::Api::kImageVariations:
      return price.image.has_value();
    case router::Api::kCountTokens:
    case router::Api::kInputTokens:
    case router::Api::kTokenize:
    case router::Api::kDetokenize:
    case router::Api::kModels:
    case router::Api::kFiles:
    case router::Api::kBatches:
    case router::Api::kMessageBatches:
    case router::Api::kFeedback:
      break;
  }
  return true;  // it is free for everybody
}

std::string_view Name(Engine engine) {
  return FactsOf(engine).word;
}
conf::Words<Engine> EngineWords() {
  return kEngines;
}
ApiSet DefaultApis(Engine engine) {
  return FactsOf(engine).apis;
}
bool HasHealthPath(Engine engine) {
  return FactsOf(engine).health;
}
// The others ignore the name, want it in a field of their own, or are not ours.
bool ServesAdapters(Engine engine) {
  return engine == Engine::kVllm || engine == Engine::kSglang || engine == Engine::kTgi ||
         engine == Engine::kChatOnly;
}
bool LoadsAdapters(Engine engine) {
  return plugins::engines::FindEngineLora(Name(engine)) != nullptr;
}
bool KnowsCacheSalt(Engine engine, router::Api api) {
  return engine == Engine::kVllm && (api == router::Api::kChatCompletions ||
                                     api == router::Api::kCompletions || api == router::Api::kResponses);
}
bool IsEngine(Engine engine) {
  return engine != Engine::kOpenai && engine != Engine::kAnthropic;
}

std::string_view TargetBehind(const Url& url, std::string_view target) {
  if (target.starts_with("/v1/") && HasVersion(url.path)) target.remove_prefix(3);
  return target;
}

std::optional<router::PrefillTransferSpec> HandoverOf(const Model& model) {
  const auto with_role =
      std::ranges::find_if(model.endpoints, [](const Endpoint& e) { return e.role != router::Role::kBoth; });
  if (with_role == model.endpoints.end()) return std::nullopt;
  const Disaggregation given = model.disaggregation.value_or(Disaggregation());
  const bool sglang = with_role->engine == Engine::kSglang;
  return router::PrefillTransferSpec{.min_prompt = given.min_prompt,
                                     .min_uncached = given.min_uncached,
                                     .decodes_whole = !sglang,
                                     .at_once = sglang};
}

bool DiscoversEndpoints(const Model& model) {
  return std::ranges::any_of(model.endpoints, [](const Endpoint& e) { return e.discovery.has_value(); });
}

Endpoint DiscoveredEndpoint(const Endpoint& from, const Target& target) {
  Endpoint out = from;
  out.source = SourceOf(*from.discovery);
  out.discovery.reset();
  out.url = target.url;
  out.name = fmt::format("{}/{}{}", from.name, target.url.authority(), target.url.path);
  out.authority = target.authority;
  out.pod = target.pod;
  if (out.zone.empty()) out.zone = target.zone;
  if (out.kv_events) {
    PutHost(out.kv_events->url, target.url.host);
    PutHost(out.kv_events->replay, target.url.host);
  }
  if (out.tls.server_name.empty() && target.url.tls() && !target.authority.empty())
    out.tls.server_name = target.authority.substr(0, target.authority.rfind(':'));
  return out;
}

std::optional<Queue> QueueOf(const Model& model) {
  return model.queue.enabled ? std::optional(model.queue) : std::nullopt;
}

std::string_view Name(FallbackOn condition) {
  return conf::WordOf(kConditions, condition);
}

bool Fallback::When(FallbackOn condition) const {
  return std::find(on.begin(), on.end(), condition) != on.end();
}

// Settings of endpoints and of their use: an adapter has all of them from its base.
static void BindServing(conf::Object& o, Model& model) {
  o.Optional("routing", model.routing);
  o.Optional("timeouts", model.timeouts);
  o.Optional("retries", model.retries);
  o.Optional("breaker", model.breaker);
  o.Optional("health", model.health);
  o.Optional("watch", model.watch);
  o.Optional("disaggregation", model.disaggregation);
  o.Optional("queue", model.queue);
  o.Optional("translate", model.translate);
  o.Optional("adapters", model.adapters);
}

void Bind(conf::Object& o, Model& model) {
  o.Required("name", model.name, ValidName());
  o.Optional("aliases", model.aliases);
  o.Optional("lora", model.lora);
  o.Optional("price", model.price);
  o.Optional("batch_price", model.batch_price);
  o.Optional("unpriced", conf::Choice(model.unpriced, "policy", kUnpricedWords));
  o.Optional("max_output_tokens", model.max_output_tokens, AtLeast{1U});
  o.Optional("context", model.context, AtLeast{1U});
  o.Optional("fallbacks", model.fallbacks);
  o.Optional("parameters", model.parameters);
  if (!model.lora && !o.Has("lora")) {
    o.Optional("endpoints", model.endpoints, NotEmpty());
    BindServing(o, model);
  } else if (o.reading()) {
    o.Optional("endpoints", model.endpoints);
    BindServing(o, model);
    for (const std::string_view key : kServing) {
      if (o.Has(key)) o.Error("has no effect with lora; the base's setting applies to its adapters", key);
    }
  }
  if (!o.reading()) return;
  if (model.lora) {
    model.lora->own_price = o.Has("price");
    if (model.lora->adapter.empty()) model.lora->adapter = model.name;
  }
  for (Endpoint& endpoint : model.endpoints) {
    if (endpoint.model.empty()) endpoint.model = model.name;
  }
  if (model.max_output_tokens && model.context && *model.max_output_tokens > *model.context) {
    o.Error("must not be more than context", "max_output_tokens");
  }
}

}  // namespace gateway::config
