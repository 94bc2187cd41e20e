#include "gateway/people/same_person.h"

#include <algorithm>
#include <string>

#include "gateway/people/jwks.h"

namespace gateway {
namespace {

constexpr std::string_view kSignedIn = "person:";
constexpr std::string_view kWithToken = "jwt:";

// A slash at the end distinguishes no issuers, as when a provider's configuration is read.
std::string_view IssuerWithoutSlash(std::string_view issuer) {
  if (issuer.ends_with('/')) issuer.remove_suffix(1);
  return issuer;
}

// The issuer that vouches for the actor, and the subject; empty: none does.
struct Subject {
  std::string issuer = {};
  std::string_view name = {};
};

std::string IssuerOf(const Config& config, std::string_view kind, std::string_view name) {
  if (kind == kSignedIn) {
    const auto& providers = config.people.providers;
    const auto at = std::ranges::find(providers, name, &config::Provider::name);
    return at == providers.end() ? std::string() : std::string(IssuerWithoutSlash(ToString(at->issuer)));
  }
  const std::vector<config::Jwt>& issuers = config.auth.jwt;
  for (size_t i = 0; i < issuers.size(); ++i) {
    if (IssuerName(issuers[i].issuer, i) == name) return std::string(IssuerWithoutSlash(issuers[i].issuer));
  }
  return {};
}

Subject SubjectOf(const Config& config, std::string_view actor) {
  for (const std::string_view kind : {kSignedIn, kWithToken}) {
    if (!actor.starts_with(kind)) continue;
    const std::string_view rest = actor.substr(kind.size());
    const size_t colon = rest.find(':');
    if (colon == std::string_view::npos) return {};
    return {IssuerOf(config, kind, rest.substr(0, colon)), rest.substr(colon + 1)};
  }
  return {};
}

}  // namespace

bool IsSamePerson(const Config& config, std::string_view actor, std::string_view other) {
  if (actor == other) return true;
  const Subject one = SubjectOf(config, actor);
  const Subject two = SubjectOf(config, other);
  return !one.issuer.empty() && one.issuer == two.issuer && one.name == two.name;
}

}  // namespace gateway
