#include "gateway/config/routing.h"

#include <algorithm>
#include <utility>

#include "conf/reader.h"
#include "gateway/config/types.h"

namespace gateway::config {
namespace {

using conf::NotEmpty;
using conf::Positive;
using conf::Range;

constexpr Range kWeight{0.0, 1e6};
constexpr Range kPercent{0.0, 100.0};
constexpr conf::Duration kLongestSession = std::chrono::hours(24 * 30);

struct HeaderName {
  std::string operator()(std::string_view name) const {
    const bool token = !name.empty() && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == '_';
    });
    return token ? "" : "is not the name of an HTTP header";
  }
};

}  // namespace

}  // namespace gateway::config

// The parameters of policies, which the router knows.
namespace router {

static void Bind(conf::Object& o, CostWeights& weights) {
  using gateway::config::kWeight;
  o.Optional("running", weights.running, kWeight);
  o.Optional("pool", weights.pool, kWeight);
  o.Optional("decode", weights.decode, kWeight);
  o.Optional("pressure", weights.pressure, kWeight);
  o.Optional("usual_silence", weights.usual_silence, kWeight);
  o.Optional("other_zone", weights.other_zone, kWeight);
  o.Optional("adapter_load", weights.adapter_load, kWeight);
}

static void Bind(conf::Object& o, EppWeights& weights) {
  using gateway::config::kWeight;
  o.Optional("queue", weights.queue, kWeight);
  o.Optional("kv", weights.kv, kWeight);
  o.Optional("prefix", weights.prefix, kWeight);
  o.Optional("lora", weights.lora, kWeight);
  if (weights.queue + weights.kv + weights.prefix <= 0)
    o.Error("the weights sum to zero; give at least one scorer a weight above 0");
}

static void Bind(conf::Object& o, CacheAwareLimits& limits) {
  o.Optional("match", limits.match, conf::Range{0.0, 1.0});
  o.Optional("imbalanced_by", limits.imbalanced_by, gateway::config::kWeight);
  o.Optional("imbalanced_times", limits.imbalanced_times, conf::Range{1.0, 1e6});
}

static void Bind(conf::Object& o, HashLimits& limits) {
  o.Optional("bound", limits.bound, conf::Range{1.0, 1e6});
}

}  // namespace router

namespace gateway::config {

static void Bind(conf::Object& o, Canary& canary) {
  o.Required("track", canary.track, ValidName());
  o.Optional("percent", canary.percent, kPercent);
  o.Optional("header", canary.header, HeaderName());
  o.Optional("value", canary.value, NotEmpty());
  if (!o.reading()) return;
  std::ranges::transform(canary.header, canary.header.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (!o.Has("percent") && !o.Has("header"))
    o.Error("give percent or header; without them no request reaches it");
  if (o.Has("value") && !o.Has("header")) o.Error("has no effect without a header", "value");
}

static void Bind(conf::Object& o, Sticky& sticky) {
  o.Optional("ttl", sticky.ttl, Range{conf::Duration(std::chrono::seconds(1)), kLongestSession});
}

static void Bind(conf::Object& o, Shadow& shadow) {
  o.Optional("model", shadow.model, ValidName());
  o.Optional("track", shadow.track, ValidName());
  o.Required("percent", shadow.percent, kPercent);
  o.Optional("in_flight", shadow.in_flight, Range{1U, 1000U});
  o.Optional("bytes", conf::Size(shadow.bytes), Range{uint64_t{1} << 10, uint64_t{16} << 20});
  o.Optional("timeout", shadow.timeout, Positive());
  if (o.reading() && o.Has("model") == o.Has("track"))
    o.Error("give either model or track, where the copies go");
}

void Bind(conf::Object& o, Routing& routing) {
  o.Optional("policy", conf::Choice(routing.policy, "policy", router::PolicyWords()));
  o.Optional("cost", routing.cost);
  o.Optional("epp", routing.epp);
  o.Optional("cache_aware", routing.cache_aware);
  o.Optional("consistent_hash", routing.consistent_hash);
  o.Optional("canaries", routing.canaries);
  o.Optional("sticky", routing.sticky);
  o.Optional("shadows", routing.shadows);
}

void Bind(conf::Object& o, RoutingLog& log) {
  o.Optional("sample", log.sample, Range{0.0, 1.0});
  o.Optional("file_bytes", conf::Size(log.file_bytes), Range{uint64_t{64} << 10, uint64_t{1} << 30});
  o.Optional("files", log.files, Range{1U, 1000U});
}

}  // namespace gateway::config
