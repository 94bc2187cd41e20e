#include "gateway/people/key_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conf/text.h"
#include "gateway/config/names.h"
#include "gateway/people/key_limits.h"
#include "plugins/auth/permissions.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;

constexpr std::array<std::string_view, 3> kRoles = {"viewer", "operator", "admin"};

template <class Names>
std::string Join(const Names& names) {
  std::string all;
  for (const auto& name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

// `, did you mean "x"?`, or the words that there are.
template <class Names>
std::string Hint(std::string_view word, const Names& names) {
  const std::vector<std::string_view> all(names.begin(), names.end());
  std::string hint = conf::DidYouMean(word, all);
  return hint.empty() ? ", expected one of " + Join(all) : hint;
}

class Checker {
 public:
  Checker(const KeyRequest& request, const Config& config, conf::TimePoint now, auth::KeySpec& spec)
      : request_(request), config_(config), now_(now), spec_(spec) {}

  std::vector<FieldProblem> Check() {
    spec_.name = request_.name;
    spec_.created_by = request_.created_by;
    spec_.owner = request_.owner;
    Owner();
    Rights();
    Models();
    Endpoints();
    Expiry();
    Priority();
    Limits();
    if (absl::Status text = auth::CheckText("name", request_.name); !text.ok()) {
      Add("name", "must be UTF-8 text of at most 256 bytes without control characters");
    }
    if (problems_.empty()) {
      if (absl::Status whole = auth::CheckSpec(spec_); !whole.ok()) Add("", std::string(whole.message()));
    }
    return std::move(problems_);
  }

 private:
  void Add(std::string field, std::string message) {
    problems_.push_back({std::move(field), std::move(message)});
  }

  void Owner() {
    if (request_.tenant.empty() == request_.role.empty()) {
      Add("tenant",
          request_.tenant.empty()
              ? "is missing: a key is either of a tenant or, with a role, an admin key"
              : fmt::format("a key is either of tenant \"{}\" or an admin key with role \"{}\", not both",
                            request_.tenant, request_.role));
      return;
    }
    if (!request_.tenant.empty()) {
      if (std::optional<std::string> path = TenantPath(config_, request_.tenant)) {
        spec_.tenant = *std::move(path);
        return;
      }
      if (request_.visible_models) {
        Add("tenant", fmt::format("no tenant \"{}\" is known here", request_.tenant));
        return;
      }
      std::vector<std::string> names;
      names.reserve(config_.tenants.size());
      for (const config::Tenant& tenant : config_.tenants) names.push_back(tenant.name);
      Add("tenant", fmt::format("unknown tenant \"{}\"{}", request_.tenant, Hint(request_.tenant, names)));
      return;
    }
    if (const std::optional<auth::Role> role = auth::RoleFromName(request_.role);
        role && !IsOfTenant(*role)) {
      spec_.role = *role;
    } else {
      Add("role", fmt::format("unknown role \"{}\"{}", request_.role, Hint(request_.role, kRoles)));
    }
  }

  void Rights() {
    if (request_.role.empty() && !request_.rights.empty())
      Add("rights", "has no effect on an application's key; an admin key has rights");
    for (const std::string& name : request_.rights) {
      if (const std::optional<auth::Right> right = auth::RightFromName(name)) {
        if (std::ranges::find(spec_.rights, *right) == spec_.rights.end()) spec_.rights.push_back(*right);
      } else {
        Add("rights", fmt::format("unknown right \"{}\"{}", name, Hint(name, auth::RightNames())));
      }
    }
  }

  // What only an application's key can have.
  bool HasNoEffect(std::string_view field, bool given) {
    if (given && !request_.role.empty()) Add(std::string(field), "has no effect on an admin key");
    return !given || !request_.role.empty();
  }

  void Models() {
    if (HasNoEffect("models", !request_.models.empty())) return;
    std::vector<std::string> names;
    for (const config::Model& model : config_.models) {
      if (!MayKnowOf(model)) continue;
      names.push_back(model.name);
      names.insert(names.end(), model.aliases.begin(), model.aliases.end());
    }
    for (const std::string& pattern : request_.models) {
      const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return auth::GlobMatch(pattern, name);
      });
      if (!matches) Add("models", fmt::format("\"{}\" is not a model{}", pattern, Hint(pattern, names)));
    }
    spec_.permissions.models = request_.models;
  }

  void Endpoints() {
    if (HasNoEffect("endpoints", !request_.endpoints.empty())) return;
    std::vector<std::string_view> families;
    families.reserve(config::kApiFamilies);
    for (unsigned i = 0; i < config::kApiFamilies; ++i) families.push_back(Name(static_cast<config::Api>(i)));
    for (const std::string& endpoint : request_.endpoints) {
      if (std::find(families.begin(), families.end(), endpoint) != families.end()) continue;
      Add("endpoints", fmt::format("\"{}\" is not an endpoint{}", endpoint, Hint(endpoint, families)));
    }
    spec_.permissions.endpoints = request_.endpoints;
  }

  void Expiry() {
    if (request_.expires.empty()) return;
    const std::optional<conf::TimePoint> at = ParseExpiry(request_.expires, now_);
    if (!at) {
      Add("expires",
          fmt::format("\"{}\" must be a duration such as 30d or a time such as 2027-01-31T00:00:00Z",
                      request_.expires));
    } else if (*at <= now_) {
      Add("expires", fmt::format("{} has passed already", conf::FormatTime(*at)));
    }
    spec_.expires = at;
  }

  void Priority() {
    if (HasNoEffect("priority", !request_.priority.empty())) return;
    const config::Names priorities = config::PriorityNames(config_.models);
    if (!request_.priority.empty() && !priorities.Has(request_.priority)) {
      Add("priority",
          fmt::format("unknown priority \"{}\"{}", request_.priority, priorities.Hint(request_.priority)));
    }
    // A more urgent band goes before the requests of all other tenants. So only a role over all tenants gives one.
    if (request_.visible_models && IsMoreUrgentThanTheTenant()) {
      Add("priority", fmt::format("\"{}\" is more urgent than the priority of {}; such a key is made by an "
                                  "operator or admin",
                                  request_.priority, spec_.tenant));
    }
    spec_.priority = request_.priority;
  }

  bool IsMoreUrgentThanTheTenant() const {
    const auto tenant = std::ranges::find_if(config_.tenants, [&](const config::Tenant& one) {
      return config::PathOf(config_.tenants, one) == spec_.tenant;
    });
    if (request_.priority.empty() || tenant == config_.tenants.end()) return false;
    return std::ranges::any_of(config_.models, [&](const config::Model& model) {
      return model.queue.BandOf(request_.priority) < model.queue.BandOf(tenant->priority);
    });
  }

  bool MayKnowOf(const config::Model& model) const {
    return !request_.visible_models ||
           std::ranges::find(*request_.visible_models, model.name) != request_.visible_models->end();
  }

  void Limits() {
    if (HasNoEffect("limits", !request_.limits.empty())) return;
    const auto parsed = ParseKeyLimits(request_.limits);
    if (!parsed.ok()) {
      std::string_view why = conf::Std(parsed.status().message());
      if (why.starts_with("limits: ")) why.remove_prefix(8);
      Add("limits", std::string(why));
    }
    spec_.limits = request_.limits;
  }

  const KeyRequest& request_;
  const Config& config_;
  const conf::TimePoint now_;
  auth::KeySpec& spec_;
  std::vector<FieldProblem> problems_;
};

}  // namespace

std::vector<FieldProblem> CheckKeyRequest(const KeyRequest& request, const Config& config,
                                          conf::TimePoint now, plugins::auth::KeySpec& spec) {
  return Checker(request, config, now, spec).Check();
}

std::optional<conf::TimePoint> ParseExpiry(std::string_view text, conf::TimePoint now) {
  if (const std::optional<conf::Duration> after = conf::ParseDuration(text)) {
    if (*after > conf::TimePoint::max() - now) return std::nullopt;
    return now + *after;
  }
  return conf::ParseTime(text);
}

}  // namespace gateway
