#include "gateway/people/sessions.h"

#include <algorithm>
#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

constexpr conf::Duration kTouchEvery = std::chrono::minutes(1);
constexpr conf::Duration kSweepEvery = std::chrono::hours(1);
constexpr size_t kSweptAtOnce = 100;
constexpr size_t kPublicDigits = 12;
constexpr size_t kAgentBytes = 120;
constexpr size_t kAddressBytes = 64;

bool IsAdmin(const Person& person) {
  return std::ranges::find(person.roles, plugins::auth::Role::kAdmin, &RoleOver::role) != person.roles.end();
}

absl::Status NoSuchSession() {
  return absl::NotFoundError("there is no such session; it may have ended");
}

}  // namespace

Sessions::Sessions(net::Loop& loop, store::Store& store, std::function<SessionTerms()> terms)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      terms_(std::move(terms)),
      follower_(loop, store, store::kSession,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> Sessions::Start() {
  if (absl::Status started = co_await follower_.Start(); !started.ok()) co_return started;
  const auto admin = co_await store_.Get(store::kFirstAdmin, store::kFirstAdminId);
  if (!admin.ok()) co_return admin.status();
  admin_stored_ = admin->has_value();
  // An earlier version did not store it.
  if (had_admin_ && !admin_stored_) (co_await RememberAdmin()).IgnoreError();
  had_admin_ = had_admin_ || admin_stored_;
  SetAfter(kSweepEvery);
  co_return absl::OkStatus();
}

// Also where another gateway is first.
net::Task<absl::Status> Sessions::RememberAdmin() {
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Create(store::kFirstAdmin, store::kFirstAdminId, "{}"));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (!committed.ok() && !absl::IsAborted(committed.status())) co_return committed.status();
  had_admin_ = admin_stored_ = true;
  co_return absl::OkStatus();
}

void Sessions::Stop() {
  stopped_ = true;
  follower_.Stop();
  Clear();
}

void Sessions::OnAlarm() {
  loop_.tasks.Spawn(Sweep());
  SetAfter(kSweepEvery);
}

void Sessions::Replace(const std::vector<store::Object>& all) {
  stored_.clear();
  for (const store::Object& object : all) Take(object.id, object.version, object.body);
}

void Sessions::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      stored_.erase(change.id);
    }
  }
}

// A session that this version cannot read lets nobody in.
void Sessions::Take(const std::string& name, uint64_t version, const std::string& body) {
  absl::StatusOr<Session> session = DecodeSession(body);
  if (session.ok()) {
    had_admin_ = had_admin_ || IsAdmin(session->person);
    stored_[name] = {*std::move(session), version};
    return;
  }
  stored_.erase(name);
  log::Warn("a stored session cannot be read; its person has to sign in again",
            {{"why", conf::Std(session.status().message())}});
}

std::vector<store::Write> Sessions::Removals(const std::string& person, conf::TimePoint now) const {
  const SessionTerms terms = terms_();
  std::vector<store::Write> writes;
  std::vector<std::pair<conf::TimePoint, const std::string*>> of_person;
  const auto remove = [&](const std::string& name) {
    writes.push_back({store::kSession, name, stored_.at(name).version, std::nullopt});
  };
  for (const auto& [name, stored] : stored_) {
    if (writes.size() >= kSweptAtOnce) return writes;
    if (EndOf(stored.session, terms) <= now) {
      remove(name);
    } else if (stored.session.person.id == person) {
      of_person.emplace_back(stored.session.seen, &name);
    }
  }
  if (of_person.size() < kMaxOfPerson) return writes;
  std::ranges::sort(of_person);
  for (size_t i = 0; i + kMaxOfPerson <= of_person.size(); ++i) remove(*of_person[i].second);
  return writes;
}

net::Task<void> Sessions::Sweep() {
  std::vector<store::Write> writes = Removals({}, net::Now());
  if (!writes.empty()) (co_await store_.Commit(std::move(writes))).status().IgnoreError();
}

net::Task<absl::StatusOr<Sessions::Begun>> Sessions::Begin(Person person, Client client, std::string id_token,
                                                           conf::TimePoint now) {
  // What is removed may be touched at the same moment; it is then left to the next sweep.
  std::vector<store::Write> removals = Removals(person.id, now);
  if (!removals.empty()) (co_await store_.Commit(std::move(removals))).status().IgnoreError();
  if (stored_.size() >= kMax) {
    co_return absl::ResourceExhaustedError("too many sessions are open; end some, or wait until they end");
  }
  if (IsAdmin(person) && !admin_stored_) {
    if (absl::Status remembered = co_await RememberAdmin(); !remembered.ok()) co_return remembered;
  }
  Begun begun;
  begun.secret = NewSecret();
  const std::string name = StoredName(begun.secret);
  client.agent.resize(std::min(client.agent.size(), kAgentBytes));
  client.address.resize(std::min(client.address.size(), kAddressBytes));
  begun.session = {.id = name.substr(0, kPublicDigits),
                   .person = std::move(person),
                   .created = now,
                   .seen = now,
                   .ends = now + terms_().lifetime,
                   .address = std::move(client.address),
                   .client = conf::OnlyPrintable(client.agent),
                   .id_token = std::move(id_token),
                   .command_line = client.command_line};
  if (client.latest) begun.session.ends = std::min(begun.session.ends, *client.latest);
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Create(store::kSession, name, EncodeSession(begun.session)));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (!committed.ok()) co_return committed.status();
  if (absl::Status current = co_await follower_.CatchUp(); !current.ok()) co_return current;
  co_return begun;
}

net::Task<absl::StatusOr<std::string>> Sessions::MakeCode(SignInCode made) {
  std::string code = NewSecret();
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Create(store::kSignInCode, StoredName(code), EncodeSignInCode(made)));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (!committed.ok()) co_return committed.status();
  co_return code;
}

net::Task<absl::StatusOr<SignInCode>> Sessions::RedeemCode(std::string code, conf::TimePoint now) {
  const absl::Status unknown = absl::NotFoundError(
      "this link was used already, or is older than a minute; make another one with "
      "tidegate console login");
  const auto object = co_await store_.Get(store::kSignInCode, StoredName(code));
  if (!object.ok()) co_return object.status();
  if (!*object) co_return unknown;
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Remove(**object));
  const absl::StatusOr<store::Committed> removed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(removed.status())) co_return unknown;  // another call was first
  if (!removed.ok()) co_return removed.status();
  absl::StatusOr<SignInCode> read = DecodeSignInCode((*object)->body);
  if (!read.ok()) co_return read.status();
  if (read->ends <= now) co_return unknown;
  co_return *std::move(read);
}

const Session* Sessions::Find(std::string_view secret, conf::TimePoint now) {
  const std::string name = StoredName(secret);
  const auto it = stored_.find(name);
  if (it == stored_.end() || EndOf(it->second.session, terms_()) <= now) return nullptr;
  Session& session = it->second.session;
  if (now - session.seen >= kTouchEvery && !stopped_) {
    session.seen = now;
    loop_.tasks.Spawn(Touch(name));
  }
  return &session;
}

const Session* Sessions::Check(std::string_view secret, conf::TimePoint now) const {
  const auto it = stored_.find(StoredName(secret));
  if (it == stored_.end() || EndOf(it->second.session, terms_()) <= now) return nullptr;
  return &it->second.session;
}

// A store that does not take it is no reason to refuse the call; the next minute tries again.
net::Task<void> Sessions::Touch(std::string name) {
  const auto it = stored_.find(name);
  if (it == stored_.end()) co_return;
  std::vector<store::Write> writes;
  writes.push_back({store::kSession, name, it->second.version, EncodeSession(it->second.session)});
  (co_await store_.Commit(std::move(writes))).status().IgnoreError();
}

net::Task<absl::StatusOr<Session>> Sessions::End(std::string id) {
  for (;;) {
    if (absl::Status current = co_await follower_.CatchUp(); !current.ok()) co_return current;
    const auto it =
        std::ranges::find_if(stored_, [&](const auto& entry) { return entry.second.session.id == id; });
    if (it == stored_.end()) co_return NoSuchSession();
    Session ended = it->second.session;
    std::vector<store::Write> writes;
    writes.push_back({store::kSession, it->first, it->second.version, std::nullopt});
    const absl::StatusOr<store::Committed> removed = co_await store_.Commit(std::move(writes));
    if (absl::IsAborted(removed.status())) continue;  // it was touched meanwhile
    if (!removed.ok()) co_return removed.status();
    if (absl::Status current = co_await follower_.CatchUp(); !current.ok()) co_return current;
    co_return ended;
  }
}

bool Sessions::IsOpen(std::string_view id, conf::TimePoint now) const {
  const SessionTerms terms = terms_();
  return std::ranges::any_of(stored_, [&](const auto& entry) {
    const Session& session = entry.second.session;
    return session.id == id && EndOf(session, terms) > now;
  });
}

std::vector<Session> Sessions::List(conf::TimePoint now) const {
  const SessionTerms terms = terms_();
  std::vector<Session> all;
  for (const auto& [name, stored] : stored_) {
    if (EndOf(stored.session, terms) > now) all.push_back(stored.session);
  }
  std::ranges::sort(all, [](const Session& a, const Session& b) {
    return std::tie(b.created, a.id) < std::tie(a.created, b.id);
  });
  return all;
}

}  // namespace gateway
