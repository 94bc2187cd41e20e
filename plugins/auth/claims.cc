#include "plugins/auth/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "plugins/auth/base64url.h"
#include "plugins/auth/digest.h"

namespace plugins::auth {
namespace {

using nlohmann::json;

constexpr size_t kMaxModels = 256;
constexpr size_t kMaxModelBytes = 256;
constexpr size_t kMaxPlainSubject = 64;

// "~1" means '/', "~0" means '~'.
std::string Unescape(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      out.push_back(step[++i] == '0' ? '~' : '/');
    } else {
      out.push_back(step[i]);
    }
  }
  return out;
}

// The claim as a list of texts; InvalidArgument when it is neither text nor a list of texts.
absl::StatusOr<std::vector<std::string>> Texts(const json& claim, std::string_view name) {
  std::vector<std::string> out;
  if (claim.is_string()) {
    out.push_back(claim.get<std::string>());
  } else if (claim.is_array()) {
    for (const json& item : claim) {
      if (!item.is_string()) {
        return absl::InvalidArgumentError(fmt::format("claim \"{}\" must be text or a list of texts", name));
      }
      out.push_back(item.get<std::string>());
    }
  } else {
    return absl::InvalidArgumentError(fmt::format("claim \"{}\" must be text or a list of texts", name));
  }
  return out;
}

// Calls `literal` and `claim` for the parts of a template in order; false when a brace is out of place.
template <typename Literal, typename Claim>
bool WalkTemplate(std::string_view text, Literal literal, Claim claim) {
  while (!text.empty()) {
    const size_t open = text.find_first_of("{}");
    literal(text.substr(0, open));
    if (open == std::string_view::npos) return true;
    const size_t close = text.find_first_of("{}", open + 1);
    if (text[open] != '{' || close == std::string_view::npos || text[close] != '}' || close == open + 1)
      return false;
    claim(text.substr(open + 1, close - open - 1));
    text.remove_prefix(close + 1);
  }
  return true;
}

absl::StatusOr<std::string> TenantByTemplate(const json& claims, const std::string& pattern) {
  std::string tenant;
  absl::Status problem;
  WalkTemplate(
      pattern, [&](std::string_view literal) { tenant += literal; },
      [&](std::string_view name) {
        const json* claim = FindClaim(claims, name);
        if (claim == nullptr) {
          problem.Update(
              absl::NotFoundError(fmt::format("claim \"{}\", which names the tenant, is missing", name)));
        } else if (!claim->is_string() || !IsTenantSegment(claim->get_ref<const std::string&>())) {
          problem.Update(absl::InvalidArgumentError(
              fmt::format("claim \"{}\" must be one tenant name without '/'", name)));
        } else {
          tenant += claim->get_ref<const std::string&>();
        }
      });
  if (!problem.ok()) return problem;
  if (!IsTenantPath(tenant)) {
    return absl::InvalidArgumentError(
        fmt::format("the template \"{}\" does not give a tenant path", pattern));
  }
  return tenant;
}

absl::StatusOr<std::string> TenantByMap(const json& claims, const ClaimMapping& mapping) {
  const json* claim = FindClaim(claims, mapping.tenant_claim);
  if (claim == nullptr) {
    return absl::NotFoundError(
        fmt::format("claim \"{}\", which names the tenant, is missing", mapping.tenant_claim));
  }
  const auto values = Texts(*claim, mapping.tenant_claim);
  if (!values.ok()) return values.status();
  std::set<std::string_view> found;
  for (const std::string& value : *values) {
    if (const auto it = mapping.tenants.find(value); it != mapping.tenants.end()) found.insert(it->second);
  }
  if (found.empty()) {
    return absl::NotFoundError(
        fmt::format("claim \"{}\" holds no value that is mapped to a tenant", mapping.tenant_claim));
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "claim \"{}\" maps to {} different tenants; it must name one", mapping.tenant_claim, found.size()));
  }
  return std::string(*found.begin());
}

// Absent means "as the tenant"; present and empty must not come to mean the same.
absl::Status ReadModels(const json& claims, const std::string& name, std::vector<std::string>* out) {
  const json* claim = FindClaim(claims, name);
  if (claim == nullptr) return absl::OkStatus();
  const auto texts = Texts(*claim, name);
  if (!texts.ok()) return texts.status();
  for (const std::string& text : *texts) {
    for (size_t from = 0; from < text.size();) {
      const size_t end = std::min(text.find(' ', from), text.size());
      if (end > from) out->push_back(text.substr(from, end - from));
      from = end + 1;
    }
  }
  const bool fits = std::all_of(out->begin(), out->end(),
                                [](const std::string& model) { return model.size() <= kMaxModelBytes; });
  if (out->empty() || out->size() > kMaxModels || !fits) {
    return absl::InvalidArgumentError(fmt::format("claim \"{}\" must name 1 to {} models of at most {} bytes",
                                                  name, kMaxModels, kMaxModelBytes));
  }
  return absl::OkStatus();
}

// With several roles, the highest counts.
absl::Status ReadRole(const json& claims, const ClaimMapping& mapping, Role* out) {
  const json* claim = FindClaim(claims, mapping.role_claim);
  if (claim == nullptr) return absl::OkStatus();
  const auto values = Texts(*claim, mapping.role_claim);
  if (!values.ok()) return values.status();
  for (const std::string& value : *values) {
    if (const auto it = mapping.roles.find(value); it != mapping.roles.end())
      *out = std::max(*out, it->second);
  }
  return absl::OkStatus();
}

bool IsPlainSubject(std::string_view subject) {
  return subject.size() <= kMaxPlainSubject && std::all_of(subject.begin(), subject.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("._@+|=:/-").find(c) != std::string_view::npos;
         });
}

}  // namespace

const json* FindClaim(const json& claims, std::string_view name) {
  if (!name.starts_with('/')) {
    const auto it = claims.find(name);
    return it == claims.end() ? nullptr : &*it;
  }
  const json* at = &claims;
  while (!name.empty()) {
    name.remove_prefix(1);
    const size_t end = std::min(name.find('/'), name.size());
    if (!at->is_object()) return nullptr;
    const auto it = at->find(Unescape(name.substr(0, end)));
    if (it == at->end()) return nullptr;
    at = &*it;
    name.remove_prefix(end);
  }
  return at;
}

absl::Status CheckMapping(const ClaimMapping& mapping) {
  const bool by_map = !mapping.tenant_claim.empty() && !mapping.tenants.empty();
  const bool by_template = !mapping.tenant_template.empty();
  if (by_map == by_template || mapping.tenant_claim.empty() != mapping.tenants.empty()) {
    return absl::InvalidArgumentError(
        "tenant: needs either a claim with a map of its values, or a template such as \"acme/{team}\"");
  }
  for (const auto& [value, tenant] : mapping.tenants) {
    if (!IsTenantPath(tenant)) {
      return absl::InvalidArgumentError(
          fmt::format("tenant: \"{}\", for the value \"{}\", must be {}", tenant, value, kTenantPathRule));
    }
  }
  std::string example;
  const bool formed = WalkTemplate(
      mapping.tenant_template, [&](std::string_view literal) { example += literal; },
      [&](std::string_view) { example += "x"; });
  if (by_template && (!formed || !IsTenantPath(example))) {
    return absl::InvalidArgumentError(
        fmt::format("tenant: the template \"{}\" must give a tenant path when each {{claim}} is a name",
                    mapping.tenant_template));
  }
  if (mapping.role_claim.empty() != mapping.roles.empty()) {
    return absl::InvalidArgumentError("role: needs both a claim and a map of its values to roles");
  }
  return absl::OkStatus();
}

absl::StatusOr<Mapped> MapClaims(const json& claims, const ClaimMapping& mapping) {
  Mapped mapped;
  if (!mapping.role_claim.empty()) {
    if (absl::Status s = ReadRole(claims, mapping, &mapped.role); !s.ok()) return s;
  }
  if (!mapping.models_claim.empty()) {
    if (absl::Status s = ReadModels(claims, mapping.models_claim, &mapped.permissions.models); !s.ok())
      return s;
  }
  absl::StatusOr<std::string> tenant = mapping.tenant_template.empty()
                                           ? TenantByMap(claims, mapping)
                                           : TenantByTemplate(claims, mapping.tenant_template);
  if (tenant.ok()) {
    mapped.tenant = *std::move(tenant);
  } else if (!absl::IsNotFound(tenant.status()) || mapped.role == Role::kNone || IsOfTenant(mapped.role)) {
    return tenant.status();
  }
  return mapped;
}

std::string SubjectKeyId(std::string_view issuer_name, std::string_view subject) {
  if (IsPlainSubject(subject)) return fmt::format("jwt:{}:{}", issuer_name, subject);
  const Digest digest = Sha256(subject);
  return fmt::format(
      "jwt:{}:#{}", issuer_name,
      EncodeBase64Url(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size())));
}

}  // namespace plugins::auth
