#include "gateway/people/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/people/key_events.h"
#include "gateway/store/kinds.h"
#include "gateway/store/stored_copy.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;

// How often the log repeats that keys cannot be read.
constexpr conf::Duration kSayAgain = std::chrono::minutes(1);

store::Write Written(const auth::KeyRecord& record, uint64_t replaces) {
  return {store::kKey, record.id, replaces, auth::EncodeKey(record)};
}

absl::Status TooManyAttempts(const std::string& id) {
  return absl::UnavailableError(
      fmt::format("API key {} is being changed by other commands; nothing was changed, try again", id));
}

}  // namespace

Keys::Keys(net::Loop& loop, store::Store& store)
    : Alarm(loop.watchdog),
      store_(store),
      follower_(loop, store, store::kKey,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); },
                 .on_health = [this](const absl::Status& status) { TakeHealth(status); }}) {}

void Keys::TakeHealth(const absl::Status& health) {
  health_ = health;
  if (health_.ok()) {
    Clear();
    log::Info("changes of keys can be read again");
  } else {
    OnAlarm();
  }
}

void Keys::OnAlarm() {
  log::Error("changes of keys cannot be read; the known keys stay in force",
             {{"why", conf::Std(health_.message())}});
  SetAfter(kSayAgain);
}

std::string Keys::trouble() const {
  if (!health_.ok())
    return fmt::format("changes of keys cannot be read, and the known keys stay in force: {}",
                       conf::Std(health_.message()));
  const auto refused =
      std::ranges::count_if(stored_, [](const auto& entry) { return entry.second.record == nullptr; });
  if (refused == 0) return {};
  return fmt::format("{} of {} stored keys cannot be read and are refused; {}", refused, stored_.size(),
                     conf::Std(unreadable_.message()));
}

net::Task<absl::Status> Keys::Start() {
  if (absl::Status started = co_await follower_.Start(); !started.ok()) co_return started;
  co_return unreadable_;
}

void Keys::Stop() {
  follower_.Stop();
  Clear();
}

void Keys::Replace(const std::vector<store::Object>& all) {
  stored_.clear();
  for (const store::Object& object : all) Take(object.id, object.version, object.body);
  Publish();
}

void Keys::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      stored_.erase(change.id);
    }
  }
  Publish();
}

// A key that cannot be read does not work: it may have been revoked, or narrowed.
void Keys::Take(const std::string& id, uint64_t version, const std::string& body) {
  absl::StatusOr<auth::KeyRecord> record = auth::DecodeKey(body);
  if (record.ok() && record->id != id) record = absl::DataLossError(fmt::format("key/id: is {}", record->id));
  Stored& stored = stored_[id];
  stored.version = version;
  stored.record = record.ok() ? std::make_shared<const auth::KeyRecord>(*std::move(record)) : nullptr;
  if (stored.record) return;
  unreadable_ = absl::DataLossError(
      fmt::format("the stored API key {} cannot be read: {}; run the version that wrote it, or a later one",
                  id, conf::Std(record.status().message())));
  log::Error("a stored API key cannot be read and is refused",
             {{"key", id}, {"why", conf::Std(record.status().message())}});
}

void Keys::Publish() {
  auth::KeyTable::Map records;
  records.reserve(stored_.size());
  for (const auto& [id, stored] : stored_) {
    if (stored.record) records.emplace(id, stored.record);
  }
  table_ = std::make_shared<const auth::KeyTable>(follower_.number(), std::move(records));
  on_table_();
}

net::Task<absl::StatusOr<Keys::Stored>> Keys::Find(std::string id) {
  if (absl::Status current = co_await follower_.CatchUp(); !current.ok()) co_return current;
  const auto it = stored_.find(id);
  if (it == stored_.end()) co_return auth::NoSuchKey(id);
  if (it->second.record == nullptr) {
    co_return absl::FailedPreconditionError(
        fmt::format("API key {} was written by a newer version of tidegate; change it with that one", id));
  }
  co_return it->second;
}

net::Task<absl::StatusOr<bool>> Keys::Commit(std::vector<store::Write> writes, uint64_t& number) {
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(committed.status())) co_return true;
  if (!committed.ok()) co_return committed.status();
  number = committed->last;
  if (absl::Status current = co_await follower_.CatchUp(); !current.ok()) {
    log::Warn("a change of a key is stored and not in force yet", {{"why", conf::Std(current.message())}});
  }
  co_return false;
}

net::Task<absl::StatusOr<Keys::Made>> Keys::Create(auth::KeySpec spec, conf::TimePoint now) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    absl::StatusOr<auth::KeyCreation> creation = auth::CreateKey(spec, now);
    if (!creation.ok()) co_return creation.status();
    std::vector<store::Write> writes = {Written(creation->created, 0), PendingEvent(creation->event)};
    uint64_t number = 0;
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes), number);
    if (!again.ok()) co_return again.status();
    if (*again) continue;  // the id is taken
    Made made;
    made.secret = std::move(creation->secret);
    made.record = std::make_shared<const auth::KeyRecord>(std::move(creation->created));
    made.number = number;
    co_return made;
  }
  co_return absl::UnavailableError("no free id for a new API key was found; nothing was changed, try again");
}

net::Task<absl::StatusOr<Keys::Made>> Keys::Rotate(std::string id, auth::Rotation rotation,
                                                   conf::TimePoint now) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    const absl::StatusOr<Stored> old = co_await Find(id);
    if (!old.ok()) co_return old.status();
    absl::StatusOr<auth::KeyRotation> result = auth::RotateKey(*old->record, rotation, now);
    if (!result.ok()) co_return result.status();
    std::vector<store::Write> writes = {Written(result->replaced, old->version), Written(result->created, 0),
                                        PendingEvent(result->event)};
    uint64_t number = 0;
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes), number);
    if (!again.ok()) co_return again.status();
    if (*again) continue;
    Made made;
    made.secret = std::move(result->secret);
    made.record = std::make_shared<const auth::KeyRecord>(std::move(result->created));
    made.number = number;
    co_return made;
  }
  co_return TooManyAttempts(id);
}

net::Task<absl::StatusOr<Keys::Revoked>> Keys::Revoke(std::string id, auth::Changer changer,
                                                      std::string reason, conf::TimePoint now) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    const absl::StatusOr<Stored> old = co_await Find(id);
    if (!old.ok()) co_return old.status();
    absl::StatusOr<auth::KeyRevocation> result = auth::RevokeKey(*old->record, changer, reason, now);
    if (!result.ok()) co_return result.status();
    std::vector<store::Write> writes = {Written(result->revoked, old->version), PendingEvent(result->event)};
    uint64_t number = 0;
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes), number);
    if (!again.ok()) co_return again.status();
    if (*again) continue;
    Revoked revoked;
    revoked.record = std::make_shared<const auth::KeyRecord>(std::move(result->revoked));
    revoked.number = number;
    co_return revoked;
  }
  co_return TooManyAttempts(id);
}

}  // namespace gateway
