// One API key as the store remembers it, and the events that make and change it.
//
// A record is immutable once it is in a table. It has two JSON forms: the stored one, with the hash, and the
// shown one, without it, for the admin API, `keys list` and the ledger.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "plugins/auth/digest.h"
#include "plugins/auth/permissions.h"

namespace plugins::auth {

// The parts of a key that its creator chooses.
struct KeySpec {
  std::string tenant;         // an application key's tenant path; empty for an admin key
  Role role = Role::kNone;    // an admin key's role; kNone for an application key
  std::vector<Right> rights;  // of an admin key, beside its role's
  std::string name;           // a label for people
  Permissions permissions;
  std::optional<conf::TimePoint> expires;  // first moment at which the key no longer works
  std::string priority;                    // name of a priority class; empty: the tenant's
  std::string limits;  // a JSON object that the gateway interprets, of at most 4 KiB; empty: none of its own
  std::string created_by;
  std::string owner;  // the person whose own key it is; empty: it belongs to no person
};

// Text for people: UTF-8, at most 256 bytes, no control characters.
absl::Status CheckText(std::string_view field, std::string_view value);

// InvalidArgument names the field, its value and what would be right.
absl::Status CheckSpec(const KeySpec& spec);

struct KeyRecord : KeySpec {
  std::string id;
  Digest hash{};  // SHA-256 of the whole key
  conf::TimePoint created;
  std::optional<conf::TimePoint> revoked_at;
  std::string rotated_from;                      // the key that this one replaces
  std::string replaced_by;                       // the key that replaces this one ...
  std::optional<conf::TimePoint> overlap_until;  // ... and the first moment at which only that one works

  // The first moment at which the key stops working by itself, if there is one.
  std::optional<conf::TimePoint> EndsAt() const;
};

using KeyRecordPtr = std::shared_ptr<const KeyRecord>;

// The stored form, on one line.
std::string EncodeKey(const KeyRecord& record);
// Refuses unknown members: a newer version may have written a restriction that this one would not keep.
absl::StatusOr<KeyRecord> DecodeKey(std::string_view json);

struct KeyEvent {
  enum class Kind { kCreated, kRotated, kRevoked };
  Kind kind = Kind::kCreated;
  conf::TimePoint at;
  std::string by;                                // the actor
  std::string id;                                // kRotated, kRevoked: the key that stops working
  std::optional<KeyRecord> key;                  // kCreated, kRotated: the key that begins to work
  std::optional<conf::TimePoint> overlap_until;  // kRotated
  std::string reason;                            // kRevoked

  // The key that the event is about: each kind of event happens to a key at most once.
  const std::string& subject() const { return id.empty() && key ? key->id : id; }
};

std::string_view KindName(KeyEvent::Kind kind);  // "created", "rotated", "revoked"

// The stored form, on one line.
std::string EncodeEvent(const KeyEvent& event);
// Refuses unknown members, too.
absl::StatusOr<KeyEvent> DecodeEvent(std::string_view json);

// The shown forms.
nlohmann::ordered_json Describe(const KeyEvent& event);

}  // namespace plugins::auth
