#include "plugins/auth/key_change.h"

#include <fmt/format.h>

#include <chrono>
#include <tuple>
#include <utility>

#include "conf/shown.h"

namespace plugins::auth {
namespace {

constexpr conf::TimePoint Whole(conf::TimePoint t) {
  return std::chrono::floor<std::chrono::microseconds>(t);
}

absl::Status HasPassed(conf::TimePoint expires) {
  return absl::InvalidArgumentError(fmt::format("expires: {} has passed already", conf::FormatTime(expires)));
}

// The last moment that a time can name.
constexpr conf::TimePoint kLatest = Whole(conf::TimePoint::max());

absl::Status CheckOverlap(conf::Duration overlap, conf::TimePoint now) {
  if (overlap < conf::Duration::zero()) return absl::InvalidArgumentError("overlap: must not be negative");
  if (overlap <= kLatest - now) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("overlap: {} from now is beyond {}, the last time there is",
                                                conf::InWords(overlap), conf::FormatTime(kLatest)));
}

// When the key that replaces `old` ends.
absl::StatusOr<std::optional<conf::TimePoint>> ExpiryOfNext(const KeyRecord& old, const Rotation& rotation,
                                                            conf::TimePoint now) {
  if (rotation.expires) {
    if (Whole(*rotation.expires) <= now) return HasPassed(*rotation.expires);
    return Whole(*rotation.expires);
  }
  if (!old.expires) return std::nullopt;
  const conf::Duration lifetime = *old.expires - old.created;
  if (lifetime > kLatest - now) {
    return absl::InvalidArgumentError(
        fmt::format("expires: the key was made for so long, until {}, that a new one would live beyond {}, "
                    "the last time there is; say when it expires",
                    conf::FormatTime(*old.expires), conf::FormatTime(kLatest)));
  }
  return now + lifetime;
}

absl::Status CheckUnrevoked(const KeyRecord& key, const Changer& changer) {
  if (key.role != Role::kNone && !changer.may_change_admin_keys) {
    return absl::PermissionDeniedError(
        fmt::format("API key {} is an admin key: changing one takes the role admin", key.id));
  }
  if (key.revoked_at) {
    return absl::FailedPreconditionError(
        fmt::format("API key {} was revoked at {}", key.id, conf::FormatTime(*key.revoked_at)));
  }
  return absl::OkStatus();
}

absl::Status CheckUsable(const KeyRecord& key, const Changer& changer, conf::TimePoint now) {
  if (absl::Status unrevoked = CheckUnrevoked(key, changer); !unrevoked.ok()) return unrevoked;
  if (!key.replaced_by.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("API key {} was replaced by {} already; rotate that one", key.id, key.replaced_by));
  }
  if (key.expires && now >= *key.expires) {
    return absl::FailedPreconditionError(
        fmt::format("API key {} expired at {}; create a new one", key.id, conf::FormatTime(*key.expires)));
  }
  return absl::OkStatus();
}

// A record of a key that begins now, and its secret.
std::pair<KeyRecord, std::string> Begin(const KeySpec& spec, conf::TimePoint now) {
  NewKey fresh = GenerateApiKey();
  KeyRecord record;
  static_cast<KeySpec&>(record) = spec;
  record.id = std::move(fresh.id);
  record.hash = Sha256(fresh.secret);
  record.created = now;
  if (record.expires) record.expires = Whole(*record.expires);
  return {std::move(record), std::move(fresh.secret)};
}

}  // namespace

absl::StatusOr<KeyCreation> CreateKey(const KeySpec& spec, conf::TimePoint now) {
  if (absl::Status s = CheckSpec(spec); !s.ok()) return s;
  now = Whole(now);
  if (spec.expires && Whole(*spec.expires) <= now) return HasPassed(*spec.expires);
  KeyCreation creation;
  std::tie(creation.created, creation.secret) = Begin(spec, now);
  creation.event.kind = KeyEvent::Kind::kCreated;
  creation.event.at = now;
  creation.event.by = spec.created_by;
  creation.event.key = creation.created;
  // Limits that nest too deep, say: what cannot be read again must not be written.
  if (const auto again = DecodeEvent(EncodeEvent(creation.event)); !again.ok()) {
    return absl::InvalidArgumentError(std::string(again.status().message()));
  }
  return creation;
}

absl::StatusOr<KeyRotation> RotateKey(const KeyRecord& old, const Rotation& rotation, conf::TimePoint now) {
  if (absl::Status s = CheckText("by", rotation.changer.by); !s.ok()) return s;
  now = Whole(now);
  if (absl::Status s = CheckOverlap(rotation.overlap, now); !s.ok()) return s;
  if (absl::Status s = CheckUsable(old, rotation.changer, now); !s.ok()) return s;
  const absl::StatusOr<std::optional<conf::TimePoint>> expires = ExpiryOfNext(old, rotation, now);
  if (!expires.ok()) return expires.status();
  KeyRotation result;
  std::tie(result.created, result.secret) = Begin(old, now);
  result.created.created_by = rotation.changer.by;
  result.created.rotated_from = old.id;
  result.created.expires = *expires;
  result.replaced = old;
  result.replaced.replaced_by = result.created.id;
  result.replaced.overlap_until = Whole(now + rotation.overlap);
  result.event.kind = KeyEvent::Kind::kRotated;
  result.event.at = now;
  result.event.by = rotation.changer.by;
  result.event.id = old.id;
  result.event.overlap_until = result.replaced.overlap_until;
  result.event.key = result.created;
  return result;
}

absl::StatusOr<KeyRevocation> RevokeKey(const KeyRecord& old, const Changer& changer, std::string_view reason,
                                        conf::TimePoint now) {
  if (absl::Status s = CheckText("by", changer.by); !s.ok()) return s;
  if (absl::Status s = CheckText("reason", reason); !s.ok()) return s;
  if (absl::Status s = CheckUnrevoked(old, changer); !s.ok()) return s;
  KeyRevocation revocation;
  revocation.revoked = old;
  revocation.revoked.revoked_at = Whole(now);
  revocation.event.kind = KeyEvent::Kind::kRevoked;
  revocation.event.at = Whole(now);
  revocation.event.by = changer.by;
  revocation.event.id = old.id;
  revocation.event.reason = std::string(reason);
  return revocation;
}

absl::Status NoSuchKey(std::string_view id) {
  return IsKeyId(id)
             ? absl::NotFoundError(fmt::format("no API key has the id \"{}\"", id))
             : absl::InvalidArgumentError("an API key is named by its id: the 10 characters after \"tg-\"");
}

}  // namespace plugins::auth
