#include "plugins/auth/key_store.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace plugins::auth {
namespace {

// The log keeps microseconds; the table holds what the log would give back.
constexpr conf::TimePoint Whole(conf::TimePoint t) {
  return std::chrono::floor<std::chrono::microseconds>(t);
}

absl::Status NoSuchKey(std::string_view id) {
  return IsKeyId(id)
             ? absl::NotFoundError(fmt::format("no API key has the id \"{}\"", id))
             : absl::InvalidArgumentError("an API key is named by its id: the 10 characters after \"tg-\"");
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
                                                conf::FormatDuration(overlap), conf::FormatTime(kLatest)));
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

}  // namespace

absl::StatusOr<std::unique_ptr<KeyStore>> KeyStore::Open(std::string path, conf::TimePoint now) {
  absl::StatusOr<std::unique_ptr<KeyLog>> log = KeyLog::Open(std::move(path));
  if (!log.ok()) return log.status();
  std::unique_ptr<KeyStore> store(new KeyStore(*std::move(log)));
  if (absl::StatusOr<bool> read = store->Refresh(now); !read.ok()) return read.status();
  return store;
}

absl::StatusOr<NewKey> KeyStore::Create(const KeySpec& spec, conf::TimePoint now) {
  if (absl::Status s = CheckSpec(spec); !s.ok()) return s;
  now = Whole(now);
  if (spec.expires && Whole(*spec.expires) <= now) return HasPassed(*spec.expires);
  const std::lock_guard lock(log_mutex_);
  NewKey fresh;
  const auto apply = [this](const KeyEvent& e) { return Apply(e); };
  absl::Status appended = log_->Append(now, apply, [&]() -> absl::StatusOr<KeyEvent> {
    fresh = FreshKey();
    KeyRecord record;
    static_cast<KeySpec&>(record) = spec;
    record.id = fresh.id;
    record.hash = Sha256(fresh.secret);
    record.created = now;
    if (record.expires) record.expires = Whole(*record.expires);
    KeyEvent event;
    event.kind = KeyEvent::Kind::kCreated;
    event.at = now;
    event.by = spec.created_by;
    event.key = std::move(record);
    return event;
  });
  Publish();
  if (!appended.ok()) return appended;
  return fresh;
}

absl::StatusOr<NewKey> KeyStore::Rotate(std::string_view id, const Rotation& rotation, conf::TimePoint now) {
  if (absl::Status s = CheckText("by", rotation.changer.by); !s.ok()) return s;
  now = Whole(now);
  if (absl::Status s = CheckOverlap(rotation.overlap, now); !s.ok()) return s;
  const std::lock_guard lock(log_mutex_);
  NewKey fresh;
  const auto apply = [this](const KeyEvent& e) { return Apply(e); };
  absl::Status appended = log_->Append(now, apply, [&]() -> absl::StatusOr<KeyEvent> {
    const absl::StatusOr<const KeyRecord*> old = FindUsable(id, rotation.changer, now);
    if (!old.ok()) return old.status();
    const absl::StatusOr<std::optional<conf::TimePoint>> expires = ExpiryOfNext(**old, rotation, now);
    if (!expires.ok()) return expires.status();
    fresh = FreshKey();
    KeyRecord record;
    static_cast<KeySpec&>(record) = **old;
    record.id = fresh.id;
    record.hash = Sha256(fresh.secret);
    record.created = now;
    record.created_by = rotation.changer.by;
    record.rotated_from = std::string(id);
    record.expires = *expires;
    KeyEvent event;
    event.kind = KeyEvent::Kind::kRotated;
    event.at = now;
    event.by = rotation.changer.by;
    event.id = std::string(id);
    event.overlap_until = Whole(now + rotation.overlap);
    event.key = std::move(record);
    return event;
  });
  Publish();
  if (!appended.ok()) return appended;
  return fresh;
}

absl::Status KeyStore::Revoke(std::string_view id, const Changer& changer, std::string_view reason,
                              conf::TimePoint now) {
  if (absl::Status s = CheckText("by", changer.by); !s.ok()) return s;
  if (absl::Status s = CheckText("reason", reason); !s.ok()) return s;
  const std::lock_guard lock(log_mutex_);
  const auto apply = [this](const KeyEvent& e) { return Apply(e); };
  absl::Status appended = log_->Append(now, apply, [&]() -> absl::StatusOr<KeyEvent> {
    const absl::StatusOr<const KeyRecord*> key = FindUnrevoked(id, changer);
    if (!key.ok()) return key.status();
    KeyEvent event;
    event.kind = KeyEvent::Kind::kRevoked;
    event.at = Whole(now);
    event.by = changer.by;
    event.id = std::string(id);
    event.reason = std::string(reason);
    return event;
  });
  Publish();
  return appended;
}

bool KeyStore::Changed() const {
  const std::unique_lock lock(log_mutex_, std::try_to_lock);
  return lock && log_->Changed();
}

absl::StatusOr<bool> KeyStore::Refresh(conf::TimePoint now) {
  const std::lock_guard lock(log_mutex_);
  if (!log_->Changed()) return false;
  const uint64_t before = log_->last_event();
  absl::Status read = log_->Read(Whole(now), [this](const KeyEvent& e) { return Apply(e); });
  Publish();
  if (!read.ok()) return read;
  return log_->last_event() != before;
}

absl::StatusOr<std::vector<KeyEvent>> KeyStore::EventsSince(uint64_t after, size_t limit) const {
  const std::lock_guard lock(log_mutex_);
  return log_->EventsSince(after, limit);
}

std::shared_ptr<const KeyTable> KeyStore::Table() const {
  const std::lock_guard lock(table_mutex_);
  return table_;
}

absl::Status KeyStore::Apply(const KeyEvent& event) {
  const auto ended = records_.find(event.id);
  if (!event.id.empty() && ended == records_.end()) {
    return absl::DataLossError(fmt::format("names the unknown key {}", event.id));
  }
  if (event.key && records_.contains(event.key->id)) {
    return absl::DataLossError(fmt::format("creates the key {} again", event.key->id));
  }
  if (!event.id.empty()) {
    auto changed = std::make_shared<KeyRecord>(*ended->second);
    if (event.kind == KeyEvent::Kind::kRevoked) {
      changed->revoked_at = event.at;
    } else {
      changed->replaced_by = event.key->id;
      changed->overlap_until = event.overlap_until;
    }
    ended->second = std::move(changed);
  }
  if (event.key) records_.emplace(event.key->id, std::make_shared<const KeyRecord>(*event.key));
  return absl::OkStatus();
}

absl::StatusOr<const KeyRecord*> KeyStore::FindUnrevoked(std::string_view id, const Changer& changer) const {
  const auto it = records_.find(conf::Abseil(id));
  if (it == records_.end()) return NoSuchKey(id);
  const KeyRecord& key = *it->second;
  if (key.role != Role::kNone && changer.role < Role::kAdmin) {
    return absl::PermissionDeniedError(
        fmt::format("API key {} is an admin key: changing one takes the role admin", id));
  }
  if (key.revoked_at) {
    return absl::FailedPreconditionError(
        fmt::format("API key {} was revoked at {}", id, conf::FormatTime(*key.revoked_at)));
  }
  return &key;
}

absl::StatusOr<const KeyRecord*> KeyStore::FindUsable(std::string_view id, const Changer& changer,
                                                      conf::TimePoint now) const {
  absl::StatusOr<const KeyRecord*> found = FindUnrevoked(id, changer);
  if (!found.ok()) return found;
  const KeyRecord& key = **found;
  if (!key.replaced_by.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("API key {} was replaced by {} already; rotate that one", id, key.replaced_by));
  }
  if (key.expires && now >= *key.expires) {
    return absl::FailedPreconditionError(
        fmt::format("API key {} expired at {}; create a new one", id, conf::FormatTime(*key.expires)));
  }
  return &key;
}

NewKey KeyStore::FreshKey() const {
  NewKey fresh = GenerateApiKey();
  while (records_.contains(fresh.id)) fresh = GenerateApiKey();
  return fresh;
}

void KeyStore::Publish() {
  const uint64_t version = log_->last_event();
  if (version == Version()) return;
  auto table = std::make_shared<const KeyTable>(version, records_);
  {
    const std::lock_guard lock(table_mutex_);
    table_ = std::move(table);
  }
  version_.store(version, std::memory_order_release);
}

}  // namespace plugins::auth
