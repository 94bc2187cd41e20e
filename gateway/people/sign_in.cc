#include "gateway/people/sign_in.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "plugins/auth/digest.h"

namespace gateway {
namespace {

constexpr conf::Duration kProviderPatience = std::chrono::seconds(10);  // of one call to a provider
constexpr conf::Duration kFresh = std::chrono::hours(1);
constexpr conf::Duration kLeastBetweenKeys = std::chrono::seconds(10);
constexpr size_t kMostCode = 4096;
constexpr size_t kMostWaiting = 1000;  // for new keys of one provider

net::Url DiscoveryUrl(const config::Provider& provider) {
  const config::Url& issuer = provider.issuer;
  return {issuer.tls(), issuer.host, std::to_string(issuer.port),
          issuer.path + "/.well-known/openid-configuration", ""};
}

absl::Status Unreachable(const config::Provider& provider, const absl::Status& why) {
  return absl::UnavailableError(
      fmt::format("the provider {} cannot be used now: {}", provider.name, conf::Std(why.message())));
}

// An attempt at one provider is none at another.
oidc::Proofs ProofsOf(std::string_view secret, const std::string& provider) {
  return oidc::Proofs(fmt::format("{}.{}", secret, provider));
}

}  // namespace

struct SignIn::Known {
  config::Provider provider;
  std::shared_ptr<const net::TlsContext> tls;
  oidc::Discovery discovery;
  std::shared_ptr<const plugins::auth::JwkSet> keys;
  std::optional<plugins::auth::JwtVerifier> verifier;
  conf::TimePoint fetched{};
  conf::TimePoint keys_fetched{};
  net::AsyncMutex renewing{kMostWaiting};
};

SignIn::SignIn(net::Loop& loop, std::function<const Config&()> config)
    : loop_(loop), config_(std::move(config)) {}
SignIn::~SignIn() = default;

void SignIn::Reset() {
  ++resets_;
  known_.clear();
}

void SignIn::Stop() {
  known_.clear();
  fetches_.Abort();
}

const config::Provider* SignIn::Find(std::string_view name) const {
  const std::vector<config::Provider>& all = config_().people.providers;
  const auto it = std::ranges::find(all, name, &config::Provider::name);
  return it == all.end() ? nullptr : &*it;
}

std::string SignIn::RedirectUri(const config::Provider& provider) const {
  return fmt::format("{}/sign-in/with/{}/callback", ToString(config_().people.url), provider.name);
}

net::Task<absl::StatusOr<std::string>> SignIn::FetchText(std::shared_ptr<Known> known, net::Url url,
                                                         std::string authorization) {
  net::http::FetchRequest request;
  request.url = std::move(url);
  request.headers = {{"accept", "application/json"}};
  if (!authorization.empty()) request.headers.emplace_back("authorization", std::move(authorization));
  request.timeout = kProviderPatience;
  request.tls = known->tls;
  request.server_name = known->provider.tls.server_name;
  const auto answer = co_await net::http::Fetch(loop_, std::move(request), &fetches_);
  if (!answer.ok()) co_return Unreachable(known->provider, answer.status());
  if (answer->status == 200) co_return answer->body;
  co_return Unreachable(known->provider,
                        absl::UnavailableError(fmt::format("it answered {}", answer->status)));
}

// What is known of a provider for an hour serves on while it does not answer.
net::Task<absl::StatusOr<std::shared_ptr<SignIn::Known>>> SignIn::Know(std::string name) {
  const config::Provider* const provider = Find(name);
  if (provider == nullptr)
    co_return absl::NotFoundError(fmt::format("no provider has the name \"{}\"", name));
  const conf::TimePoint now = net::Now();
  const uint64_t resets = resets_;
  const auto before =
      std::ranges::find_if(known_, [&](const auto& one) { return one->provider.name == name; });
  const std::shared_ptr<Known> old = before == known_.end() ? nullptr : *before;
  if (old && now - old->fetched < kFresh) co_return old;
  auto fresh = std::make_shared<Known>();
  fresh->provider = *provider;
  if (provider->issuer.tls()) {
    const config::ClientTls& tls = provider->tls;
    auto context = net::TlsContext::Client({tls.ca, tls.certificate, tls.key, !tls.insecure_skip_verify});
    if (!context.ok()) co_return Unreachable(*provider, context.status());
    fresh->tls = *std::move(context);
  }
  const absl::StatusOr<std::string> text = co_await FetchText(fresh, DiscoveryUrl(fresh->provider), {});
  absl::Status failed = text.status();
  if (text.ok()) {
    absl::StatusOr<oidc::Discovery> discovery = oidc::ReadDiscovery(*text, fresh->provider);
    if (discovery.ok()) {
      fresh->discovery = *std::move(discovery);
      absl::StatusOr<plugins::auth::JwtVerifier> verifier =
          oidc::VerifierOf(fresh->discovery, fresh->provider);
      if (!verifier.ok()) co_return verifier.status();
      fresh->verifier = *std::move(verifier);
    } else {
      failed = Unreachable(fresh->provider, discovery.status());
    }
  }
  if (failed.ok()) failed = co_await FetchKeys(fresh);
  if (!failed.ok()) {
    log::Warn("an identity provider cannot be used",
              {{"provider", name}, {"why", conf::Std(failed.message())}});
    if (old) co_return old;
    co_return failed;
  }
  fresh->fetched = now;
  if (resets != resets_) co_return fresh;
  std::erase_if(known_, [&](const auto& one) { return one->provider.name == name; });
  known_.push_back(fresh);
  co_return fresh;
}

net::Task<absl::Status> SignIn::FetchKeys(std::shared_ptr<Known> known) {
  known->keys_fetched = net::Now();
  const absl::StatusOr<std::string> text = co_await FetchText(known, known->discovery.keys, {});
  if (!text.ok()) co_return text.status();
  auto keys = plugins::auth::JwkSet::Parse(*text);
  if (!keys.ok()) co_return Unreachable(known->provider, keys.status());
  known->keys = std::make_shared<const plugins::auth::JwkSet>(*std::move(keys));
  co_return absl::OkStatus();
}

net::Task<absl::Status> SignIn::RenewKeys(std::shared_ptr<Known> known,
                                          std::shared_ptr<const plugins::auth::JwkSet> old) {
  if (!co_await known->renewing.Lock())
    co_return Unreachable(known->provider, absl::ResourceExhaustedError("too many wait for its keys"));
  absl::Status fetched;
  if (known->keys == old && net::Now() - known->keys_fetched >= kLeastBetweenKeys)
    fetched = co_await FetchKeys(known);
  known->renewing.Unlock();
  co_return fetched;
}

net::Task<absl::StatusOr<SignIn::Started>> SignIn::Begin(std::string provider) {
  const absl::StatusOr<std::shared_ptr<Known>> known = co_await Know(provider);
  if (!known.ok()) co_return known.status();
  Started started;
  started.secret = NewSecret();
  started.url = oidc::AuthorizationUrl((*known)->discovery, (*known)->provider,
                                       RedirectUri((*known)->provider), ProofsOf(started.secret, provider));
  co_return started;
}

net::Task<absl::StatusOr<oidc::Tokens>> SignIn::FetchTokens(std::shared_ptr<Known> known, std::string code,
                                                            oidc::Proofs proofs) {
  oidc::TokenCall call =
      oidc::TokenCallOf(known->discovery, known->provider, RedirectUri(known->provider), code, proofs);
  net::http::FetchRequest request;
  request.method = "POST";
  request.url = known->discovery.token;
  request.headers = {{"accept", "application/json"}, {"content-type", "application/x-www-form-urlencoded"}};
  if (!call.authorization.empty())
    request.headers.emplace_back("authorization", std::move(call.authorization));
  request.body = std::move(call.body);
  request.timeout = kProviderPatience;
  request.tls = known->tls;
  request.server_name = known->provider.tls.server_name;
  const auto answer = co_await net::http::Fetch(loop_, std::move(request), &fetches_);
  if (!answer.ok()) co_return Unreachable(known->provider, answer.status());
  co_return oidc::ReadTokens(answer->status, answer->body);
}

net::Task<absl::StatusOr<nlohmann::json>> SignIn::Claims(std::shared_ptr<Known> known, oidc::Tokens tokens,
                                                         oidc::Proofs proofs, conf::TimePoint now) {
  plugins::auth::ParsedJwt parsed;
  plugins::auth::JwtResult result = plugins::auth::ParseJwt(tokens.id_token, &parsed);
  if (result.ok()) result = known->verifier->Verify(parsed, *known->keys, now);
  if (result.refusal == plugins::auth::JwtRefusal::kUnknownKey) {  // it signs with a new key
    if (absl::Status fetched = co_await RenewKeys(known, known->keys); !fetched.ok()) co_return fetched;
    result = known->verifier->Verify(parsed, *known->keys, now);
  }
  if (!result.ok()) co_return absl::UnauthenticatedError("ID token: " + result.message);
  if (absl::Status ours = oidc::CheckClaims(parsed.claims, known->provider, proofs); !ours.ok())
    co_return ours;
  nlohmann::json claims = std::move(parsed.claims);
  const oidc::Lack lack = oidc::LackOf(claims, known->provider);
  if (known->discovery.user_info && !tokens.access_token.empty() && lack != oidc::Lack::kNothing) {
    const absl::StatusOr<std::string> info =
        co_await FetchText(known, *known->discovery.user_info, "Bearer " + tokens.access_token);
    if (!info.ok() && lack == oidc::Lack::kName) co_return claims;  // it goes without
    if (!info.ok()) co_return info.status();
    if (absl::Status added = oidc::AddUserInfo(*info, claims); !added.ok()) co_return added;
  }
  co_return claims;
}

net::Task<absl::StatusOr<SignIn::Finished>> SignIn::Finish(Return from, conf::TimePoint now) {
  const absl::Status stranger = absl::InvalidArgumentError(
      "this answer of the provider belongs to no attempt of this browser; sign in again");
  if (from.secret.empty()) co_return stranger;
  const oidc::Proofs proofs = ProofsOf(from.secret, from.provider);
  if (!plugins::auth::EqualInConstantTime(plugins::auth::Sha256(from.state),
                                          plugins::auth::Sha256(proofs.state)))
    co_return stranger;
  if (!from.error.empty()) {
    co_return absl::CancelledError(
        fmt::format("the provider refused: {}", oidc::Harmless(std::move(from.error))));
  }
  if (from.code.empty() || from.code.size() > kMostCode) co_return stranger;
  const absl::StatusOr<std::shared_ptr<Known>> known = co_await Know(from.provider);
  if (!known.ok()) co_return known.status();
  absl::StatusOr<oidc::Tokens> tokens = co_await FetchTokens(*known, std::move(from.code), proofs);
  if (!tokens.ok()) co_return tokens.status();
  const absl::StatusOr<nlohmann::json> claims = co_await Claims(*known, *tokens, proofs, now);
  if (!claims.ok()) co_return claims.status();
  absl::StatusOr<Person> person = oidc::PersonOf(
      *claims, (*known)->provider,
      [this](const std::string& tenant) { return TenantPath(config_(), tenant).value_or(tenant); },
      is_member_);
  if (!person.ok()) co_return person.status();
  co_return Finished{*std::move(person), std::move(tokens->id_token)};
}

std::optional<std::string> SignIn::EndUrl(const Session& session) const {
  const auto it = std::ranges::find_if(
      known_, [&](const auto& one) { return one->provider.name == session.person.provider; });
  if (it == known_.end()) return std::nullopt;
  return oidc::EndSessionUrl((*it)->discovery, (*it)->provider, session.id_token,
                             ToString(config_().people.url) + "/sign-in");
}

}  // namespace gateway
