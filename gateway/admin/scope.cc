#include "gateway/admin/scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <absl/container/flat_hash_map.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/control/jobs/jobs.h"

namespace gateway::admin {
namespace {

constexpr std::string_view kOfAName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

// What stands for each name that is not the caller's to see.
absl::flat_hash_map<std::string, std::string_view> HiddenNames(const Operations& operations,
                                                               const Call& call) {
  absl::flat_hash_map<std::string, std::string_view> hidden;
  if (const control::Jobs* const jobs = operations.jobs()) {
    for (const control::Workload* job : jobs->all()) {
      if (!call.May(Permission::kSeeJobs, job->file().job.tenant)) hidden[job->id] = "a job of others";
    }
  }
  const VisibleModels visible(call);
  for (const control::ReplicaStatus& replica : operations.scaling().replicas) {
    if (!visible.Has(replica.model)) hidden[replica.run] = "a replica of others";
  }
  return hidden;
}

}  // namespace

VisibleModels::VisibleModels(const Call& call)
    : runtime_(*call.runtime), all_(call.caller.authority.MayEverywhere(Permission::kSeeModels)) {
  if (all_) return;
  visible_.resize(runtime_.routes().models().size());
  for (const TenantRuntime& tenant : runtime_.tenants()) {
    if (!call.May(Permission::kSeeModels, tenant.path)) continue;
    for (size_t i = 0; i < visible_.size(); ++i) visible_[i] = visible_[i] || tenant.models[i];
  }
}

bool VisibleModels::Has(std::string_view model) const {
  if (all_) return true;
  const auto& models = runtime_.routes().models();
  for (size_t i = 0; i < visible_.size(); ++i) {
    if (models[i].spec.name == model) return visible_[i];
  }
  return false;
}

std::optional<std::vector<std::string>> VisibleModels::Names() const {
  if (all_) return std::nullopt;
  std::vector<std::string> names;
  const auto& models = runtime_.routes().models();
  for (size_t i = 0; i < visible_.size(); ++i) {
    if (visible_[i]) names.push_back(models[i].spec.name);
  }
  return names;
}

std::string PathOfTenant(const Call& call, std::string_view name_or_path) {
  const TenantRuntime* const found = call.runtime->FindTenant(name_or_path);
  return found == nullptr ? std::string(name_or_path) : found->path;
}

std::variant<std::string, Answer> TenantInScope(const Call& call, std::string_view named,
                                                Permission permission) {
  if (call.caller.authority.MayEverywhere(permission)) return PathOfTenant(call, named);
  const std::vector<std::string> own = call.caller.authority.TenantsOf(permission);
  if (named.empty() && own.size() == 1) return own.front();
  if (named.empty()) {
    return Refuse(api::Code::kInvalidValue,
                  std::vector<FieldProblem>{
                      {"tenant", fmt::format("say which of your tenants: {}", fmt::join(own, ", "))}},
                  call.request_id);
  }
  std::string path = PathOfTenant(call, named);
  if (call.May(permission, path)) return path;
  return Refuse(
      api::Code::kPermissionDenied,
      fmt::format("you have no role over the tenant \"{}\"; yours: {}", named, fmt::join(own, ", ")),
      call.request_id);
}

void HideOthers(const Operations& operations, const Call& call, std::string& json) {
  if (call.caller.authority.MayEverywhere(Permission::kSeeJobs)) return;
  const auto hidden = HiddenNames(operations, call);
  if (hidden.empty()) return;
  std::string out;
  out.reserve(json.size());
  for (size_t at = 0; at < json.size();) {
    size_t begin = std::min(json.find_first_of(kOfAName, at), json.size());
    if (begin > 0 && begin < json.size() && json[begin - 1] == '\\') ++begin;  // the letter of an escape
    size_t end = std::min(json.find_first_not_of(kOfAName, begin), json.size());
    while (end > begin && json[end - 1] == '.') --end;  // of a sentence
    out.append(json, at, begin - at);
    const auto found = hidden.find(conf::Abseil(std::string_view(json).substr(begin, end - begin)));
    if (found == hidden.end()) {
      out.append(json, begin, end - begin);
    } else {
      out += found->second;
    }
    at = end;
    while (at < json.size() && json[at] == '.') out += json[at++];
  }
  json = std::move(out);
}

}  // namespace gateway::admin
