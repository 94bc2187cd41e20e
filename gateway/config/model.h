// Section `models`: names that can be called, the endpoints that serve them, their prices, and their
// failures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "conf/words.h"
#include "gateway/config/adapter_loading.h"
#include "gateway/config/disaggregation.h"
#include "gateway/config/discovery.h"
#include "gateway/config/kv_events.h"
#include "gateway/config/lora.h"
#include "gateway/config/parameters.h"
#include "gateway/config/queue.h"
#include "gateway/config/routing.h"
#include "gateway/config/types.h"
#include "gateway/config/watch.h"
#include "router/facts/api.h"

namespace gateway::config {

// Micro-USD per million tokens or characters, or each. In the file: USD, with at most six decimals. What is
// not given has no price: it is free, and refused where a budget in money applies.
struct Price {
  std::optional<int64_t> input;
  std::optional<int64_t> cached_input;  // when not given: as input
  std::optional<int64_t> cache_write;   // tokens that the engine is asked to keep; when not given: as input
  std::optional<int64_t> output;
  std::optional<int64_t> image;         // each that is made
  std::optional<int64_t> audio_second;  // each of sound that is read
  std::optional<int64_t> characters;    // per million that are spoken
};

enum class Unpriced : uint8_t { kRefuse, kAllow };

inline constexpr uint16_t kBootstrapPort = 8998;  // SGLang's default

enum class Engine : uint8_t { kVllm, kSglang, kTrtllm, kTgi, kLlamacpp, kOpenai, kAnthropic, kChatOnly };
std::string_view Name(Engine engine);
conf::Words<Engine> EngineWords();
ApiSet DefaultApis(Engine engine);
// Engines that answer GET /health; the others are providers that are judged by their answers alone.
bool HasHealthPath(Engine engine);

struct Endpoint {
  std::string name;  // default: host:port and path of the URL, or of its source
  Url url;           // empty: its addresses are discovered
  std::optional<Discovery> discovery{};
  Engine engine = Engine::kVllm;
  std::string model;  // the name at the engine; default: the model's own
  uint32_t weight = 1;
  std::string zone;   // default: the gateway's
  std::string track;  // default: stable
  conf::Secret api_key;
  std::vector<Header> headers;
  std::vector<SecretHeader> secret_headers;
  std::vector<std::string> pass_headers;  // of the client's, beyond those of the engine's list; lower case
  ClientTls tls;
  ApiSet apis;  // default: DefaultApis(engine)
  std::optional<KvEvents> kv_events;
  router::Role role = router::Role::kBoth;
  std::optional<uint16_t> bootstrap_port;  // of an sglang prefill; absent: kBootstrapPort

  // Of one that was discovered, and only there:
  std::string source{};     // as SourceOf has it
  std::string authority{};  // the name by which it was found, for Host and TLS; empty: the URL's
  std::string pod{};        // NAMESPACE/NAME; empty: not one of Kubernetes
};

// One address that a source has found.
struct Target {
  Url url;
  std::string authority{};  // as Endpoint has it, as the next
  std::string pod{};
  std::string zone{};  // where the endpoint gives none

  friend bool operator==(const Target&, const Target&) = default;
};

// The endpoint of an address that the source of `from` has found. Its name is that of `from` and the address.
Endpoint DiscoveredEndpoint(const Endpoint& from, const Target& target);

struct Timeouts {
  conf::Duration connect = std::chrono::seconds(2);
  conf::Duration first_byte = std::chrono::minutes(5);
  conf::Duration idle = std::chrono::minutes(2);  // between events, once the answer has begun
  conf::Duration total = std::chrono::minutes(30);
};

struct Retries {
  uint32_t max = 2;              // per request, before its first byte
  double budget = 0.2;           // retries as a share of the model's requests
  uint32_t min_per_minute = 10;  // allowed whatever the share, so that a quiet model can retry
  conf::Duration backoff = std::chrono::milliseconds(25);  // doubles with each retry
  conf::Duration max_backoff = std::chrono::seconds(1);
};

// The circuit breaker of one endpoint: opens on consecutive failures, and lets a probe through after a
// pause, which grows with each failed probe.
struct Breaker {
  uint32_t failures = 5;
  conf::Duration open = std::chrono::seconds(5);
  conf::Duration max_open = std::chrono::minutes(1);
  uint32_t probes = 1;
};

struct Health {
  std::optional<bool> probe;  // absent: by HasHealthPath(engine) of each endpoint
  std::string path = "/health";
  conf::Duration interval = std::chrono::seconds(5);
  conf::Duration timeout = std::chrono::seconds(4);
  uint32_t rise = 2;
  uint32_t fall = 3;
};

enum class FallbackOn : uint8_t {
  kUnavailable,  // no endpoint to try, or all tries failed before the first byte
  kOverloaded,   // endpoints answered 429 or 503
  kTimeout,      // no first byte in time
  kContext,      // the request is longer than the model's context
};
std::string_view Name(FallbackOn condition);

struct Fallback {
  std::string model;
  std::vector<FallbackOn> on{FallbackOn::kUnavailable, FallbackOn::kOverloaded, FallbackOn::kTimeout};

  bool When(FallbackOn condition) const;
};

struct Model {
  std::string name;
  std::vector<std::string> aliases;
  std::optional<Lora> lora;                // absent: it has endpoints of its own
  std::optional<AdapterLoading> adapters;  // absent: none can be loaded at run time
  Price price;
  std::optional<Price> batch_price;       // of lines of batches; absent: as others
  Unpriced unpriced = Unpriced::kRefuse;  // calls without a price, where a budget in money applies
  std::optional<uint32_t> max_output_tokens;
  std::optional<uint32_t> context;  // tokens, input and output together
  std::vector<Endpoint> endpoints;
  Routing routing;
  Timeouts timeouts;
  Retries retries;
  Breaker breaker;
  Health health;
  Watch watch;
  std::optional<Disaggregation> disaggregation;
  Queue queue;
  std::vector<Fallback> fallbacks;
  Parameters parameters;  // of requests' bodies
  bool translate = true;  // messages and responses for endpoints that only know chat
};

const Price& PriceOf(const Model& model, bool of_batch);
// Whether everything that a call of this API uses has a price.
bool HasPriceFor(const Price& price, router::Api api);
// How the model's endpoints hand prompts over; nothing where no endpoint has a role.
std::optional<router::PrefillTransferSpec> HandoverOf(const Model& model);
// Whether addresses of some endpoints are discovered.
bool DiscoversEndpoints(const Model& model);
// The model's queue; nothing where it is switched off.
std::optional<Queue> QueueOf(const Model& model);
// Whether the engine serves a LoRA adapter to a request that names it as the model.
bool ServesAdapters(Engine engine);
// Whether it loads adapters while it runs.
bool LoadsAdapters(Engine engine);
// Whether the engine keeps prompts with different salts apart in its cache, for this API.
bool KnowsCacheSalt(Engine engine, router::Api api);
// Whether the engine is one of ours, which says or shows how busy it is.
bool IsEngine(Engine engine);
// The path under which an endpoint serves `target`, without what its URL's path is put before: a URL whose
// path holds a version (`/api/v3`, `/v1beta/openai`) stands for /v1 itself.
std::string_view TargetBehind(const Url& url, std::string_view target);

void Bind(conf::Object& object, Model& out);

}  // namespace gateway::config
