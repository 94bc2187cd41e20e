// The part of a list that a caller with roles over some tenants sees: these tenants, those below them, and the
// models that they may use. Pure; control loop's thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/admin/route.h"

namespace gateway::admin {

// Whether a model is the caller's to see: one that some tenant of theirs may use.
class VisibleModels {
 public:
  explicit VisibleModels(const Call& call);
  bool Has(std::string_view model) const;
  // Their names; nothing: the caller sees all.
  std::optional<std::vector<std::string>> Names() const;

 private:
  const Runtime& runtime_;
  bool all_ = false;
  std::vector<bool> visible_;  // by ModelId
};

// The tenant that a call is about, as a path: the one that it names, or, where it names none, the only one that the
// caller has; empty: all. Otherwise the refusal.
std::variant<std::string, Answer> TenantInScope(const Call& call, std::string_view named,
                                                Permission permission);

// Takes the names of jobs and replicas that are not the caller's to see out of a JSON text: reasons name what holds
// the devices that somebody waits for.
void HideOthers(const Operations& operations, const Call& call, std::string& json);

// The path of a tenant's name or path; what names none stays as it is.
std::string PathOfTenant(const Call& call, std::string_view name_or_path);

}  // namespace gateway::admin
