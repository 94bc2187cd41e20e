#include "gateway/people/jwks.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "plugins/auth/jwt_authenticator.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;

constexpr conf::Duration kTick = std::chrono::seconds(1);
constexpr size_t kMaxKeySet = 1u << 20;

auth::JwksPolicy PolicyOf(const config::Jwt& config) {
  auth::JwksPolicy policy;
  policy.refresh = config.refresh;
  policy.unknown_kid_interval = std::min(policy.unknown_kid_interval, config::kLeastRefresh);
  return policy;
}

}  // namespace

struct Jwks::Issuer {
  explicit Issuer(const config::Jwt& from) : config(from), cache(PolicyOf(from)) {
    if (!from.jwks.file.empty()) file.emplace(from.jwks.file, PolicyOf(from));
  }
  const auth::JwksCache& state() const { return file ? file->cache() : cache; }
  bool HasSource(const config::Jwt& other) const {
    return config.issuer == other.issuer && config.jwks == other.jwks && config.tls == other.tls;
  }

  config::Jwt config;
  size_t index = 0;
  auth::JwksCache cache;
  std::optional<auth::JwksFile> file;
  std::shared_ptr<const net::TlsContext> tls;
  auth::PublishedKeys told;
  bool stopped = false;
};

Jwks::Jwks(net::Loop& loop, OnKeys on_keys)
    : Alarm(loop.watchdog), loop_(loop), on_keys_(std::move(on_keys)) {}
Jwks::~Jwks() = default;

absl::StatusOr<std::vector<Jwks::Planned>> Jwks::Plan(const std::vector<config::Jwt>& issuers) const {
  std::vector<Planned> planned;
  for (const config::Jwt& config : issuers) {
    Planned& plan = planned.emplace_back(Planned{nullptr, config, nullptr});
    if (config.jwks.url.tls()) {
      auto tls = net::TlsContext::Client(
          {config.tls.ca, config.tls.certificate, config.tls.key, !config.tls.insecure_skip_verify});
      if (!tls.ok()) return tls.status();
      plan.tls = *std::move(tls);
    }
    const auto same = std::find_if(issuers_.begin(), issuers_.end(), [&](const std::shared_ptr<Issuer>& old) {
      return old->HasSource(config);
    });
    plan.issuer = same != issuers_.end() ? *same : std::make_shared<Issuer>(config);
  }
  return planned;
}

void Jwks::Start(std::vector<Planned> planned) {
  Forget();
  for (Planned& plan : planned) {
    Issuer& issuer = *plan.issuer;
    issuer.stopped = false;
    issuer.index = issuers_.size();
    issuer.tls = std::move(plan.tls);
    issuer.config = std::move(plan.config);
    issuer.cache.SetPolicy(PolicyOf(issuer.config));
    if (issuer.file) {
      issuer.file->SetPolicy(PolicyOf(issuer.config));
      issuer.file->Poll(net::Now());
      issuer.told = issuer.state().Published();
    }
    issuers_.push_back(std::move(plan.issuer));
  }
  if (!issuers_.empty()) SetAfter(conf::Duration::zero());
}

std::vector<auth::PublishedKeys> Jwks::published() const {
  std::vector<auth::PublishedKeys> all;
  all.reserve(issuers_.size());
  for (const std::shared_ptr<Issuer>& issuer : issuers_) all.push_back(issuer->state().Published());
  return all;
}

void Jwks::Stop() {
  Forget();
  fetches_.Abort();
}

void Jwks::Forget() {
  Clear();
  for (const std::shared_ptr<Issuer>& issuer : issuers_) issuer->stopped = true;
  issuers_.clear();
}

void Jwks::OnUnknownKeyId(size_t issuer) {
  if (issuer >= issuers_.size() || issuers_[issuer]->file) return;
  issuers_[issuer]->cache.UnknownKid(net::Now());
  SetAfter(conf::Duration::zero());
}

void Jwks::OnAlarm() {
  const conf::TimePoint now = net::Now();
  for (const std::shared_ptr<Issuer>& issuer : issuers_) {
    if (issuer->file) {
      issuer->file->Poll(now);
      Publish(*issuer);
    } else if (issuer->cache.Next(now).fetch) {
      loop_.tasks.Spawn(Fetch(issuer));
    }
  }
  SetAfter(kTick);
}

net::Task<void> Jwks::Fetch(std::shared_ptr<Issuer> issuer) {
  const config::Url& from = issuer->config.jwks.url;
  net::http::FetchRequest request;
  request.url = {from.tls(), from.host, std::to_string(from.port), from.path, ""};
  request.headers = {{"accept", "application/json"}};
  request.tls = issuer->tls;
  request.server_name = issuer->config.tls.server_name;
  request.max_response_bytes = kMaxKeySet;
  const absl::StatusOr<net::http::FetchResponse> answer =
      co_await net::http::Fetch(loop_, std::move(request), &fetches_);
  if (issuer->stopped) co_return;
  const conf::TimePoint now = net::Now();
  if (!answer.ok()) {
    issuer->cache.Failed(conf::Std(answer.status().message()), now);
  } else if (answer->status != 200) {
    issuer->cache.Failed(fmt::format("{} answered {}", from.authority(), answer->status), now);
  } else {
    issuer->cache.Loaded(answer->body, now).IgnoreError();  // kept as last_error
  }
  if (const std::string& error = issuer->cache.last_error(); !error.empty()) {
    log::Warn("key set not refreshed", {{"issuer", issuer->config.issuer}, {"why", error}});
  }
  Publish(*issuer);
}

void Jwks::Publish(Issuer& issuer) {
  const auth::PublishedKeys& keys = issuer.state().Published();
  if (keys.generation == issuer.told.generation && keys.usable_until == issuer.told.usable_until) return;
  issuer.told = keys;
  on_keys_(issuer.index, keys);
}

std::vector<Jwks::Status> Jwks::status(conf::TimePoint now) const {
  std::vector<Status> all;
  for (const std::shared_ptr<Issuer>& issuer : issuers_) {
    const auth::PublishedKeys& keys = issuer->state().Published();
    const auth::JwksCache& state = issuer->state();
    all.push_back({issuer->config.issuer, keys.keys != nullptr && now < keys.usable_until, state.last_error(),
                   state.failures(),
                   state.last_good() ? std::optional(now - *state.last_good()) : std::nullopt});
  }
  return all;
}

std::string IssuerName(std::string_view issuer, size_t number) {
  std::string_view text = issuer;
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos)
    text.remove_prefix(scheme + 3);
  text = text.substr(0, std::min<size_t>(text.find('/'), 24));
  std::string name;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    name += letter ? c : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : '-';
  }
  return fmt::format("{}-{}", name, number);
}

absl::StatusOr<std::shared_ptr<const auth::JwtAuthenticator::Issuers>> BuildIssuers(
    const std::vector<config::Jwt>& issuers) {
  if (issuers.empty()) return nullptr;
  std::vector<auth::IssuerConfig> configs;
  for (const config::Jwt& jwt : issuers) {
    auth::IssuerConfig config;
    config.name = IssuerName(jwt.issuer, configs.size());
    config.issuer = jwt.issuer;
    config.audiences = jwt.audience;
    for (const config::JwtAlgorithm algorithm : jwt.algorithms)
      config.algorithms.emplace_back(Name(algorithm));
    config.leeway = jwt.leeway;
    config.claims.tenant_claim = jwt.tenant.claim;
    config.claims.tenants = jwt.tenant.values;
    if (jwt.tenant.values.empty()) {
      config.claims.tenant_claim.clear();
      config.claims.tenant_template = "{" + jwt.tenant.claim + "}";
    }
    config.claims.role_claim = jwt.role.claim;
    config.claims.roles = jwt.role.values;
    config.claims.models_claim = jwt.models_claim;
    configs.push_back(std::move(config));
  }
  auto made = auth::JwtAuthenticator::MakeIssuers(std::move(configs));
  if (!made.ok()) return made.status();
  return std::make_shared<const auth::JwtAuthenticator::Issuers>(*std::move(made));
}

}  // namespace gateway
