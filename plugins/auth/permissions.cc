#include "plugins/auth/permissions.h"

#include <algorithm>

namespace plugins::auth {
namespace {

constexpr conf::Word<Role> kRoles[] = {{"member", Role::kMember},
                                       {"lead", Role::kLead},
                                       {"viewer", Role::kViewer},
                                       {"operator", Role::kOperator},
                                       {"admin", Role::kAdmin}};

constexpr conf::Word<Right> kRights[] = {{"submit_jobs", Right::kSubmitJobs}};

constexpr size_t kMaxSegments = 8;
constexpr size_t kMaxSegmentBytes = 64;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

conf::Words<Role> WordsOf(Role) {
  return kRoles;
}

std::string_view RoleName(Role role) {
  return conf::WordOf(kRoles, role);
}

std::optional<Role> RoleFromName(std::string_view name) {
  return conf::ValueOf(kRoles, name);
}

bool IsOfTenant(Role role) {
  return role == Role::kMember || role == Role::kLead;
}

conf::Words<Right> WordsOf(Right) {
  return kRights;
}

std::string_view RightName(Right right) {
  return conf::WordOf(kRights, right);
}

std::optional<Right> RightFromName(std::string_view name) {
  return conf::ValueOf(kRights, name);
}

std::vector<std::string_view> RightNames() {
  std::vector<std::string_view> names;
  for (const auto& [name, right] : kRights) names.push_back(name);
  return names;
}

bool Permissions::AllowsModel(std::string_view model) const {
  return models.empty() || std::any_of(models.begin(), models.end(),
                                       [&](const std::string& pattern) { return GlobMatch(pattern, model); });
}

bool Permissions::AllowsEndpoint(std::string_view family) const {
  return endpoints.empty() || std::find(endpoints.begin(), endpoints.end(), family) != endpoints.end();
}

bool GlobMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t after_star = std::string_view::npos;  // where to resume in the pattern, and in the text
  size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsTenantSegment(std::string_view segment) {
  if (segment.empty() || segment.size() > kMaxSegmentBytes || !IsAlphanumeric(segment[0])) return false;
  return std::all_of(segment.begin(), segment.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

bool IsTenantPath(std::string_view path) {
  for (size_t segments = 1; segments <= kMaxSegments; ++segments) {
    const size_t slash = path.find('/');
    if (!IsTenantSegment(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

}  // namespace plugins::auth
