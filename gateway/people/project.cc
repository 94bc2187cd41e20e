#include "gateway/people/project.h"

#include <absl/strings/ascii.h>

#include <algorithm>

#include "conf/json_fields.h"
#include "gateway/people/stored_json.h"
#include "router/limits/spec.h"

namespace gateway {

template <class O>
constexpr void Bind(O& o, Project& project) {
  o.Required("path", project.path);
  o.Optional("models", project.models);
  o.Optional("limits", project.limits);
  o.Optional("weight", project.weight);
  o.Optional("disabled", project.disabled);
  o.Optional("made_by", project.made_by);
  o.Required("made", project.made);
}

template <class O>
constexpr void Bind(O& o, Member& member) {
  o.Required("tenant", member.tenant);
  o.Required("who", member.who);
  o.Required("role", member.role);
  o.Optional("added_by", member.added_by);
  o.Required("added", member.added);
}

namespace {

constexpr size_t kMaxWho = 200;

}  // namespace

std::string_view Project::parent() const {
  return router::limits::ParentPath(path);
}

std::string_view Project::name() const {
  const std::string_view all = path;
  return all.substr(all.rfind('/') + 1);
}

absl::StatusOr<std::string> MemberName(std::string_view who) {
  const bool printable = std::ranges::all_of(who, [](char c) { return c > ' ' && c <= '~' && c != '|'; });
  if (!printable || who.size() > kMaxWho)
    return absl::InvalidArgumentError("must have at most 200 visible ASCII characters");
  if (who.starts_with("person:") && who.size() > std::string_view("person:").size()) return std::string(who);
  const size_t at = who.find('@');
  if (at != std::string_view::npos && at > 0 && at + 1 < who.size() && who.find('@', at + 1) == who.npos)
    return absl::AsciiStrToLower(conf::Abseil(who));
  return absl::InvalidArgumentError(
      "must be the id of a person, such as person:corp:ada, or an e-mail address");
}

bool IsMember(const Member& member, const Person& person) {
  if (member.who == person.id) return true;
  return person.email_verified && !person.email.empty() &&
         member.who == absl::AsciiStrToLower(conf::Abseil(person.email));
}

std::string EncodeProject(const Project& project) {
  return conf::ToJsonText(project);
}

absl::StatusOr<Project> DecodeProject(std::string_view json) {
  absl::StatusOr<Project> project = ReadStored<Project>("tenant", json);
  if (project.ok() && (!plugins::auth::IsTenantPath(project->path) || project->parent().empty()))
    return absl::DataLossError("tenant/path: is not a path below a tenant");
  return project;
}

std::string EncodeMember(const Member& member) {
  return conf::ToJsonText(member);
}

absl::StatusOr<Member> DecodeMember(std::string_view json) {
  absl::StatusOr<Member> member = ReadStored<Member>("member", json);
  if (member.ok() && (!plugins::auth::IsTenantPath(member->tenant) || !IsOfTenant(member->role)))
    return absl::DataLossError("member/role: is not a role over a tenant");
  return member;
}

}  // namespace gateway
