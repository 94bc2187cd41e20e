// Decides changes of API keys: takes a key and the requested change, and returns the new keys and the event that
// records the change. The caller writes both in one transaction.
//
// Pure except for the random generator of new secrets; any thread. Times are cut to whole microseconds, as in the
// stored form.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "plugins/auth/api_key.h"
#include "plugins/auth/key_record.h"

namespace plugins::auth {

// The actor that changes a key.
struct Changer {
  std::string by{};
  bool may_change_admin_keys = true;
};

struct Rotation {
  conf::Duration overlap{};  // how long the old key works beside the new one; zero: not at all
  std::optional<conf::TimePoint> expires{};  // of the new key; else it lives as long as the old one was given
  Changer changer{};
};

struct KeyCreation {
  std::string secret;  // the whole key: the only copy
  KeyRecord created;
  KeyEvent event;
};

struct KeyRotation {
  std::string secret;
  KeyRecord created;
  KeyRecord replaced;  // the old key as it is to be
  KeyEvent event;
};

struct KeyRevocation {
  KeyRecord revoked;
  KeyEvent event;
};

// InvalidArgument names the member of `spec` and what would be right.
absl::StatusOr<KeyCreation> CreateKey(const KeySpec& spec, conf::TimePoint now);

// A new key with everything of `old`, which works until now + overlap, or until its own earlier expiry.
// FailedPrecondition for a key that no longer works or was rotated before, PermissionDenied for one that is
// not the changer's to change.
absl::StatusOr<KeyRotation> RotateKey(const KeyRecord& old, const Rotation& rotation, conf::TimePoint now);

// For good. FailedPrecondition when it was revoked before, PermissionDenied as for RotateKey. The key that
// replaces it is not touched.
absl::StatusOr<KeyRevocation> RevokeKey(const KeyRecord& old, const Changer& changer, std::string_view reason,
                                        conf::TimePoint now);

// NotFound, or InvalidArgument for a text that is no key's id.
absl::Status NoSuchKey(std::string_view id);

}  // namespace plugins::auth
