#include "plugins/auth/permissions.h"

#include <algorithm>

namespace plugins::auth {
namespace {

struct RoleRow {
  Role role;
  std::string_view name;
};
constexpr RoleRow kRoles[] = {
    {Role::kViewer, "viewer"}, {Role::kOperator, "operator"}, {Role::kAdmin, "admin"}};

struct RightRow {
  Right right;
  std::string_view name;
};
constexpr RightRow kRights[] = {{Right::kSubmitJobs, "submit_jobs"}};

constexpr size_t kMaxSegments = 8;
constexpr size_t kMaxSegmentBytes = 64;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string_view RoleName(Role role) {
  for (const RoleRow& row : kRoles) {
    if (row.role == role) return row.name;
  }
  return "";
}

std::optional<Role> RoleFromName(std::string_view name) {
  for (const RoleRow& row : kRoles) {
    if (row.name == name) return row.role;
  }
  return std::nullopt;
}

std::string_view RightName(Right right) {
  for (const RightRow& row : kRights) {
    if (row.right == right) return row.name;
  }
  return "";
}

std::optional<Right> RightFromName(std::string_view name) {
  for (const RightRow& row : kRights) {
    if (row.name == name) return row.right;
  }
  return std::nullopt;
}

std::vector<std::string_view> RightNames() {
  std::vector<std::string_view> names;
  for (const RightRow& row : kRights) names.push_back(row.name);
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
