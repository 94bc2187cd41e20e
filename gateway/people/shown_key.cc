#include "gateway/people/shown_key.h"

namespace gateway {
namespace {

std::optional<conf::ShownTime> Shown(const std::optional<conf::TimePoint>& at) {
  return at ? std::optional(conf::ShownTime{*at}) : std::nullopt;
}

}  // namespace

std::string_view Name(KeyState state) {
  return kKeyStateNames[static_cast<size_t>(state)];
}

KeyState StateOf(const plugins::auth::KeyRecord& key, conf::TimePoint now) {
  if (key.revoked_at) return KeyState::kRevoked;
  if (key.expires && now >= *key.expires) return KeyState::kExpired;
  if (key.overlap_until && now >= *key.overlap_until) return KeyState::kReplaced;
  return KeyState::kActive;
}

ShownKey ShowKey(const plugins::auth::KeyRecord& key, conf::TimePoint now) {
  ShownKey out;
  out.id = key.id;
  out.tenant = key.tenant;
  out.role = RoleName(key.role);
  for (const plugins::auth::Right right : key.rights) out.rights.emplace_back(RightName(right));
  out.name = key.name;
  out.models = key.permissions.models;
  out.endpoints = key.permissions.endpoints;
  out.created = {key.created};
  out.expires = Shown(key.expires);
  out.priority = key.priority;
  if (!key.limits.empty()) out.limits = conf::RawJson{key.limits};
  out.created_by = key.created_by;
  out.owner = key.owner;
  out.rotated_from = key.rotated_from;
  out.revoked_at = Shown(key.revoked_at);
  out.replaced_by = key.replaced_by;
  out.overlap_until = Shown(key.overlap_until);
  out.state = Name(StateOf(key, now));
  return out;
}

}  // namespace gateway
