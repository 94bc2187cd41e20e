#include "gateway/people/grants.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/audit/stored_events.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/people/being_changed.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

constexpr conf::Duration kLookEvery = std::chrono::seconds(1);
constexpr conf::Duration kKept = std::chrono::days(90);
constexpr size_t kRemovedAtOnce = 100;

// Before a grant ends, people are told, unless it was short anyway.
constexpr conf::Duration kReminder = std::chrono::hours(24);

bool NeedsReminder(const TenantGrant& grant, conf::TimePoint now) {
  return !grant.reminded && grant.InForce(now) && grant.until - now <= kReminder &&
         grant.until - grant.from >= 2 * kReminder;
}

store::Write EventOf(std::string_view action, const std::string& actor, const std::string& subject,
                     const std::string& tenant, std::string detail) {
  return StoredEvent({.action = std::string(action),
                      .actor = actor.empty() ? "control" : actor,
                      .subject = subject,
                      .tenant = tenant,
                      .detail = std::move(detail)});
}

store::Write Event(std::string_view action, const std::string& actor, const TenantGrant& grant) {
  return EventOf(action, actor, grant.id, grant.tenant, EncodeGrant(grant));
}

store::Write Event(std::string_view action, const std::string& actor, const GrantRequest& request) {
  return EventOf(action, actor, request.id, request.tenant, EncodeRequest(request));
}

absl::Status NoSuch(std::string_view what, std::string_view id) {
  return absl::NotFoundError(conf::Abseil(fmt::format("no {} has the id \"{}\"", what, id)));
}

absl::Status HasEnded(std::string_view id) {
  return absl::FailedPreconditionError(conf::Abseil(fmt::format("the grant {} has ended", id)));
}

std::string_view ActionOf(RequestState state) {
  switch (state) {
    case RequestState::kApproved:
      return "request.approve";
    case RequestState::kDeclined:
      return "request.decline";
    case RequestState::kWithdrawn:
      return "request.withdraw";
    case RequestState::kExpired:
      return "request.expire";
    case RequestState::kPending:
      break;
  }
  return "request.make";
}

template <class T, class At>
std::vector<T> NewestFirst(const typename store::StoredCopy<T>::Entries& entries, At at) {
  std::vector<T> all;
  all.reserve(entries.size());
  for (const auto& [id, entry] : entries) all.push_back(entry.value);
  std::ranges::sort(all,
                    [&](const T& a, const T& b) { return std::pair(at(b), a.id) < std::pair(at(a), b.id); });
  return all;
}

}  // namespace

Grants::Grants(net::Loop& loop, store::Store& store)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      grants_(loop, store, store::kGrant, DecodeGrant, [this] { Changed(); }),
      requests_(loop, store, store::kRequest, DecodeRequest, [] {}) {}

net::Task<absl::Status> Grants::Start() {
  if (absl::Status started = co_await grants_.Start(); !started.ok()) co_return started;
  if (absl::Status started = co_await requests_.Start(); !started.ok()) co_return started;
  told_at_ = net::Now();
  SetAfter(kLookEvery);
  co_return absl::OkStatus();
}

void Grants::Stop() {
  stopped_ = true;
  grants_.Stop();
  requests_.Stop();
  Clear();
}

void Grants::Changed() {
  told_at_ = net::Now();
  told_();
}

// Looks each second rather than at the next moment: the wall clock may be set.
void Grants::OnAlarm() {
  const conf::TimePoint now = net::Now();
  const auto passed = [&](conf::TimePoint at) { return told_at_ < at && at <= now; };
  bool other = false;
  bool over = false;
  for (const auto& [id, entry] : grants_.all()) {
    const TenantGrant& grant = entry.value;
    if (grant.ended) continue;
    other = other || passed(grant.from) || passed(grant.until);
    over = over || grant.until <= now || NeedsReminder(grant, now);
  }
  for (const auto& [id, entry] : requests_.all())
    over = over || (entry.value.state == RequestState::kPending && entry.value.expires <= now);
  if (other) Changed();
  if (over && !stopped_ && !std::exchange(sweeping_, true)) loop_.tasks.Spawn(Sweep());
  SetAfter(kLookEvery);
}

// Records what has ended by itself, and removes what ended a long time ago. Another process may be first.
net::Task<void> Grants::Sweep() {
  const conf::TimePoint now = net::Now();
  std::vector<std::string> over;
  for (const auto& [id, entry] : grants_.all()) {
    if (!entry.value.ended && entry.value.until <= now) over.push_back(id);
  }
  for (const std::string& id : over) {
    if (stopped_) break;
    (co_await End(id, {}, now)).status().IgnoreError();
  }
  over.clear();
  for (const auto& [id, entry] : grants_.all()) {
    if (NeedsReminder(entry.value, now)) over.push_back(id);
  }
  for (const std::string& id : over) {
    if (!stopped_) co_await Remind(id, now);
  }
  over.clear();
  for (const auto& [id, entry] : requests_.all()) {
    if (entry.value.state == RequestState::kPending && entry.value.expires <= now) over.push_back(id);
  }
  for (const std::string& id : over) {
    if (stopped_) break;
    (co_await Close(id, RequestState::kExpired, {}, "nobody decided in time", now)).status().IgnoreError();
  }
  if (std::vector<store::Write> writes = Outdated(now); !stopped_ && !writes.empty())
    (co_await store_.Commit(std::move(writes))).status().IgnoreError();
  sweeping_ = false;
}

net::Task<void> Grants::Remind(std::string id, conf::TimePoint now) {
  const auto* const entry = grants_.Find(id);
  if (entry == nullptr || !NeedsReminder(entry->value, now)) co_return;
  TenantGrant reminded = entry->value;
  reminded.reminded = true;
  std::vector<store::Write> writes;
  writes.push_back({store::kGrant, id, entry->version, EncodeGrant(reminded)});
  const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
  if (again.ok() && !*again) notify_({.event = "grant.ends_soon", .actor = {}, .grant = &reminded});
}

std::vector<store::Write> Grants::Outdated(conf::TimePoint now) const {
  std::vector<store::Write> writes;
  for (const auto& [id, entry] : grants_.all()) {
    if (writes.size() >= kRemovedAtOnce) break;
    if (entry.value.ended && *entry.value.ended + kKept <= now)
      writes.push_back({store::kGrant, id, entry.version, std::nullopt});
  }
  for (const auto& [id, entry] : requests_.all()) {
    if (writes.size() >= kRemovedAtOnce) break;
    if (entry.value.decided && *entry.value.decided + kKept <= now)
      writes.push_back({store::kRequest, id, entry.version, std::nullopt});
  }
  return writes;
}

net::Task<absl::Status> Grants::CatchUp() {
  if (absl::Status current = co_await grants_.CatchUp(); !current.ok()) co_return current;
  co_return co_await requests_.CatchUp();
}

net::Task<absl::StatusOr<bool>> Grants::Commit(std::vector<store::Write> writes) {
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(committed.status())) co_return true;
  if (!committed.ok()) co_return committed.status();
  if (absl::Status current = co_await CatchUp(); !current.ok()) {
    log::Warn("a change of a grant is stored and not in force yet", {{"why", conf::Std(current.message())}});
  }
  co_return false;
}

net::Task<absl::StatusOr<TenantGrant>> Grants::Give(TenantGrant grant) {
  if (grants_.all().size() >= kMax)
    co_return absl::FailedPreconditionError("too many grants are kept; end some");
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    grant.id = NewId("gr_");
    std::vector<store::Write> writes;
    writes.push_back(Event("grant.give", grant.approved_by, grant));
    writes.push_back(store::Write::Create(store::kGrant, grant.id, EncodeGrant(grant)));
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (*again) continue;  // the id is taken
    notify_({.event = "grant.give", .actor = grant.approved_by, .grant = &grant});
    co_return grant;
  }
  co_return BeingChanged("the grant");
}

net::Task<absl::StatusOr<TenantGrant>> Grants::End(std::string id, std::string actor, conf::TimePoint now) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = grants_.Find(id);
    if (entry == nullptr) co_return NoSuch("grant", id);
    if (entry->value.ended) co_return HasEnded(id);
    TenantGrant ended = entry->value;
    ended.ended = std::min(now, ended.until);
    ended.ended_by = actor;
    std::vector<store::Write> writes;
    writes.push_back(Event("grant.end", actor, ended));
    writes.push_back({store::kGrant, id, entry->version, EncodeGrant(ended)});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (*again) continue;
    notify_({.event = "grant.end", .actor = actor, .grant = &ended});
    co_return ended;
  }
  co_return BeingChanged(id);
}

net::Task<absl::StatusOr<TenantGrant>> Grants::Change(std::string id, std::function<void(TenantGrant&)> edit,
                                                      std::string actor) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = grants_.Find(id);
    if (entry == nullptr) co_return NoSuch("grant", id);
    if (entry->value.ended) co_return HasEnded(id);
    TenantGrant changed = entry->value;
    edit(changed);
    if (changed == entry->value) co_return changed;
    if (changed.until > entry->value.until) changed.reminded = false;
    std::vector<store::Write> writes;
    writes.push_back(Event("grant.change", actor, changed));
    writes.push_back({store::kGrant, id, entry->version, EncodeGrant(changed)});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (*again) continue;
    notify_({.event = "grant.change", .actor = actor, .grant = &changed});
    co_return changed;
  }
  co_return BeingChanged(id);
}

absl::StatusOr<TenantGrant> Grants::AddGiven(const GrantRequest& request, TenantGrant grant,
                                             std::vector<store::Write>& writes) const {
  if (request.renews.empty()) {
    grant.id = NewId("gr_");
    grant.request = request.id;
    writes.push_back(Event("grant.give", grant.approved_by, grant));
    writes.push_back(store::Write::Create(store::kGrant, grant.id, EncodeGrant(grant)));
    return grant;
  }
  const auto* const entry = grants_.Find(request.renews);
  if (entry == nullptr) return NoSuch("grant", request.renews);
  if (entry->value.ended) return HasEnded(request.renews);
  // The approver was checked against what the grant gave when the request was made.
  if (entry->value.gives != request.wants)
    return absl::FailedPreconditionError("the grant was changed since; ask again");
  TenantGrant renewed = entry->value;
  renewed.until = std::max(renewed.until, grant.until);
  renewed.reminded = false;
  writes.push_back(Event("grant.renew", grant.approved_by, renewed));
  writes.push_back({store::kGrant, renewed.id, entry->version, EncodeGrant(renewed)});
  return renewed;
}

net::Task<absl::StatusOr<GrantRequest>> Grants::Ask(GrantRequest request, const TenantGrant* grant) {
  if (requests_.all().size() >= kMax)
    co_return absl::FailedPreconditionError("too many requests are kept; decide some");
  const auto pending = std::ranges::count_if(requests_.all(), [&](const auto& entry) {
    const GrantRequest& other = entry.second.value;
    return other.state == RequestState::kPending && other.asked_by == request.asked_by;
  });
  if (static_cast<size_t>(pending) >= kMaxPendingOfPerson) {
    co_return absl::FailedPreconditionError(conf::Abseil(
        fmt::format("{} requests of yours wait for an answer, which is the limit; withdraw some", pending)));
  }
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    request.id = NewId("rq_");
    std::vector<store::Write> writes;
    std::optional<TenantGrant> given;
    if (grant != nullptr) {
      absl::StatusOr<TenantGrant> added = AddGiven(request, *grant, writes);
      if (!added.ok()) co_return added.status();
      given = *std::move(added);
      request.state = RequestState::kApproved;
      request.decided_by = grant->approved_by;
      request.decided = request.asked;
      request.grant = given->id;
    }
    writes.insert(writes.begin(), Event("request.make", request.asked_by, request));
    writes.push_back(store::Write::Create(store::kRequest, request.id, EncodeRequest(request)));
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (*again) {  // an id is taken, or the renewed grant was changed
      if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
      continue;
    }
    notify_({.event = grant == nullptr ? "request.make" : "request.approve",
             .actor = grant == nullptr ? request.asked_by : request.decided_by,
             .request = &request,
             .grant = given ? &*given : nullptr});
    co_return request;
  }
  co_return BeingChanged("the request");
}

net::Task<absl::StatusOr<GrantRequest>> Grants::Decide(std::string id,
                                                       std::function<void(GrantRequest&)> decide,
                                                       std::string_view action, const TenantGrant* grant) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = requests_.Find(id);
    if (entry == nullptr) co_return NoSuch("request", id);
    if (entry->value.state != RequestState::kPending) {
      co_return absl::FailedPreconditionError(
          conf::Abseil(fmt::format("the request {} is {} already", id,
                                   conf::WordOf<RequestState>(WordsOf(RequestState{}), entry->value.state))));
    }
    GrantRequest decided = entry->value;
    decide(decided);
    std::vector<store::Write> writes;
    std::optional<TenantGrant> given;
    if (grant != nullptr) {
      absl::StatusOr<TenantGrant> added = AddGiven(decided, *grant, writes);
      if (!added.ok()) co_return added.status();
      given = *std::move(added);
      decided.grant = given->id;
    }
    writes.insert(writes.begin(), Event(action, decided.decided_by, decided));
    writes.push_back({store::kRequest, id, entry->version, EncodeRequest(decided)});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (*again) continue;
    notify_({.event = action,
             .actor = decided.decided_by,
             .request = &decided,
             .grant = given ? &*given : nullptr});
    co_return decided;
  }
  co_return BeingChanged(id);
}

net::Task<absl::StatusOr<GrantRequest>> Grants::Approve(std::string id, TenantGrant grant, std::string answer,
                                                        conf::TimePoint now) {
  const auto decide = [&](GrantRequest& request) {
    request.state = RequestState::kApproved;
    request.decided_by = grant.approved_by;
    request.decided = now;
    request.answer = answer;
  };
  co_return co_await Decide(std::move(id), decide, ActionOf(RequestState::kApproved), &grant);
}

net::Task<absl::StatusOr<GrantRequest>> Grants::Close(std::string id, RequestState state, std::string actor,
                                                      std::string answer, conf::TimePoint now) {
  const auto decide = [&](GrantRequest& request) {
    request.state = state;
    request.decided_by = actor;
    request.decided = now;
    request.answer = answer;
  };
  co_return co_await Decide(std::move(id), decide, ActionOf(state), nullptr);
}

net::Task<absl::StatusOr<GrantRequest>> Grants::Comment(std::string id, RequestComment comment) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = requests_.Find(id);
    if (entry == nullptr) co_return NoSuch("request", id);
    if (entry->value.comments.size() >= kMaxComments) {
      co_return absl::FailedPreconditionError(
          conf::Abseil(fmt::format("the request {} has {} comments, which is the limit", id, kMaxComments)));
    }
    GrantRequest commented = entry->value;
    commented.comments.push_back(comment);
    const nlohmann::ordered_json detail = {{"request", id}, {"text", comment.text}};
    std::vector<store::Write> writes;
    writes.push_back(EventOf("request.comment", comment.by, id, commented.tenant, conf::DumpJson(detail)));
    writes.push_back({store::kRequest, id, entry->version, EncodeRequest(commented)});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (*again) continue;
    notify_({.event = "request.comment", .actor = comment.by, .request = &commented});
    co_return commented;
  }
  co_return BeingChanged(id);
}

std::vector<store::Write> Grants::EndAllOf(std::string_view tenant, const std::string& actor,
                                           conf::TimePoint now) const {
  std::vector<store::Write> writes;
  for (const auto& [id, entry] : grants_.all()) {
    if (entry.value.tenant != tenant || entry.value.ended) continue;
    TenantGrant ended = entry.value;
    ended.ended = std::min(now, ended.until);
    ended.ended_by = actor;
    writes.push_back(Event("grant.end", actor, ended));
    writes.push_back({store::kGrant, id, entry.version, EncodeGrant(ended)});
  }
  for (const auto& [id, entry] : requests_.all()) {
    if (entry.value.tenant != tenant || entry.value.state != RequestState::kPending) continue;
    GrantRequest closed = entry.value;
    closed.state = RequestState::kDeclined;
    closed.decided_by = actor;
    closed.decided = now;
    closed.answer = "the tenant was removed";
    writes.push_back(Event("request.decline", actor, closed));
    writes.push_back({store::kRequest, id, entry.version, EncodeRequest(closed)});
  }
  return writes;
}

std::vector<TenantGrant> Grants::List() const {
  return NewestFirst<TenantGrant>(grants_.all(), [](const TenantGrant& grant) { return grant.from; });
}

std::vector<GrantRequest> Grants::Requests() const {
  return NewestFirst<GrantRequest>(requests_.all(),
                                   [](const GrantRequest& request) { return request.asked; });
}

const TenantGrant* Grants::Find(std::string_view id) const {
  const auto* const entry = grants_.Find(id);
  return entry == nullptr ? nullptr : &entry->value;
}

const GrantRequest* Grants::FindRequest(std::string_view id) const {
  const auto* const entry = requests_.Find(id);
  return entry == nullptr ? nullptr : &entry->value;
}

}  // namespace gateway
