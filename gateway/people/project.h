// A project is a tenant that was made at run time, below a tenant that allows it (`self_service`). A member is a
// person with a role over a tenant that was given at run time, not by sign-in. Pure; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/people/session.h"
#include "plugins/auth/permissions.h"

namespace gateway {

struct Project {
  std::string path;                                     // "acme/search": its parent's and its own name
  std::optional<std::vector<std::string>> models = {};  // names or globs; absent: the parent's
  std::string limits = {};                              // as JSON: key_limits.h; empty: none of its own
  uint32_t weight = 1;                                  // as of configured tenants
  bool disabled = false;                                // it and those below it are refused
  std::string made_by = {};
  conf::TimePoint made = {};

  bool operator==(const Project&) const = default;

  std::string_view parent() const;  // its path
  std::string_view name() const;    // the last part of the path
};

struct Member {
  std::string tenant;  // path
  std::string who;     // "person:corp:ada", or an e-mail address in lower case
  plugins::auth::Role role = plugins::auth::Role::kMember;  // or lead
  std::string added_by = {};
  conf::TimePoint added = {};

  bool operator==(const Member&) const = default;
};

// What `who` names, as it is stored: an id of a person stays, an address becomes lower case. InvalidArgument: it is
// neither.
absl::StatusOr<std::string> MemberName(std::string_view who);

// Whether the member is that person. An address counts only where the provider says that it was verified: else
// anybody could claim it.
bool IsMember(const Member& member, const Person& person);

std::string EncodeProject(const Project& project);
absl::StatusOr<Project> DecodeProject(std::string_view json);
std::string EncodeMember(const Member& member);
absl::StatusOr<Member> DecodeMember(std::string_view json);

}  // namespace gateway
