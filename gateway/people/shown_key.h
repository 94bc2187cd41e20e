// A key as operators are shown it, by the admin API and the command line. Never the secret: there is none to
// show after it was made.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "conf/json_fields.h"
#include "conf/time.h"
#include "plugins/auth/key_record.h"

namespace gateway {

enum class KeyState { kActive, kExpired, kRevoked, kReplaced };
inline constexpr size_t kKeyStates = 4;
inline constexpr std::array<std::string_view, kKeyStates> kKeyStateNames = {"active", "expired", "revoked",
                                                                            "replaced"};
std::string_view Name(KeyState state);
KeyState StateOf(const plugins::auth::KeyRecord& key, conf::TimePoint now);

struct ShownKey {
  static constexpr std::string_view kSchema = "Key";

  std::string id;
  std::string tenant;
  std::string role;
  std::vector<std::string> rights;
  std::string name;
  std::vector<std::string> models;
  std::vector<std::string> endpoints;
  conf::ShownTime created;
  std::optional<conf::ShownTime> expires;
  std::string priority;
  std::optional<conf::RawJson> limits;
  std::string created_by;
  std::string owner;
  std::string rotated_from;
  std::optional<conf::ShownTime> revoked_at;
  std::string replaced_by;
  std::optional<conf::ShownTime> overlap_until;
  std::string_view state;
};

template <class O>
constexpr void Bind(O& o, ShownKey& key) {
  o.Required("id", key.id);
  o.Optional("tenant", key.tenant);
  o.Optional("role", key.role);
  o.Optional("rights", key.rights);
  o.Optional("name", key.name);
  o.Optional("models", key.models);
  o.Optional("endpoints", key.endpoints);
  o.Required("created", key.created);
  o.Optional("expires", key.expires);
  o.Optional("priority", key.priority);
  o.Optional("limits", key.limits);
  o.Optional("created_by", key.created_by);
  o.Optional("owner", key.owner);
  o.Optional("rotated_from", key.rotated_from);
  o.Optional("revoked_at", key.revoked_at);
  o.Optional("replaced_by", key.replaced_by);
  o.Optional("overlap_until", key.overlap_until);
  o.Required("state", key.state);
}

ShownKey ShowKey(const plugins::auth::KeyRecord& key, conf::TimePoint now);

// One that was just made: the only time that its secret is told.
struct ShownNewKey {
  static constexpr std::string_view kSchema = "NewKey";

  ShownKey key;
  std::string secret;
};

template <class O>
constexpr void Bind(O& o, ShownNewKey& made) {
  o.Inline(made.key);
  o.Required("secret", made.secret);
}

}  // namespace gateway
