#include "gateway/control/gateways/gateways.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kTellInterval = std::chrono::seconds(2);
constexpr conf::Duration kBusyInterval = std::chrono::seconds(1);  // with demand, or requests that leave
constexpr conf::Duration kShortest = std::chrono::milliseconds(250);
constexpr conf::Duration kRowPoll = std::chrono::milliseconds(500);
constexpr conf::Duration kForget = std::chrono::minutes(10);  // a gateway that is gone

uint64_t LagOf(uint64_t version, const GatewayRecord& record) {
  return version <= record.followed + 1 ? 0 : version - 1 - record.followed;
}

bool Waits(const GatewayRecord& record) {
  return std::ranges::any_of(record.demand, [](const auto& of) { return of.second.waiting > 0; }) ||
         std::ranges::any_of(record.adapters, [](const auto& of) { return of.second.waits; });
}

bool IsAnother(const GatewayRecord& record, const std::string& own) {
  return !own.empty() && !record.id.empty() && record.id != own;
}

std::string WhyTaken(const GatewayRecord& other, const std::string& own) {
  return fmt::format(
      "the gateway {} (its admin listener: {}) has the name {}, and so would this one, {}: a name is "
      "that of the machine and the port of server.admin; give one of them another port, or its machine "
      "another "
      "host name",
      other.id, other.address, other.name, own);
}

}  // namespace

Gateways::Gateways(net::Loop& loop, store::Store& store, Environment env)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      env_(std::move(env)),
      follower_(loop, store, store::kGateway,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> Gateways::CheckName() {
  const std::string own = env_.self().id;
  const conf::TimePoint until = net::Now() + env_.name_lease;
  net::Sleep pause(loop_.watchdog);
  for (uint64_t seen = 0;;) {
    const absl::StatusOr<std::optional<store::Object>> there =
        co_await store_.Get(store::kGateway, env_.name);
    if (!there.ok()) co_return there.status();
    if (!*there) co_return absl::OkStatus();
    const absl::StatusOr<GatewayRecord> other = ReadGateway(env_.name, (*there)->body);
    if (!other.ok() || !IsAnother(*other, own)) co_return absl::OkStatus();
    const uint64_t version = (*there)->version;
    if (seen != 0 && version != seen) co_return absl::AlreadyExistsError(conf::Abseil(WhyTaken(*other, own)));
    if (seen == 0)
      log::Info("another gateway had this name; waiting until it is known to have ended",
                {{"id", other->id}});
    seen = version;
    if (net::Now() >= until) co_return absl::OkStatus();
    co_await pause.For(kRowPoll);
  }
}

net::Task<absl::Status> Gateways::Start() {
  if (absl::Status started = co_await follower_.Start(); !started.ok()) co_return started;
  co_await Tell();
  co_return absl::OkStatus();
}

void Gateways::Stop() {
  stopped_ = true;
  Clear();
  follower_.Stop();
}

net::Task<void> Gateways::Leave() {
  Stop();
  net::Sleep pause(loop_.watchdog);
  while (telling_) co_await pause.For(net::Watchdog::kTick);
  if (version_ == 0) co_return;
  std::vector<store::Write> writes;
  writes.push_back(
      store::Write{.kind = store::kGateway, .id = env_.name, .replaces = version_, .body = std::nullopt});
  (co_await store_.Commit(std::move(writes))).status().IgnoreError();
}

void Gateways::TellSoon(conf::Duration after) {
  if (stopped_) return;
  again_ = std::min(again_, std::max(net::Now() + after, told_ + kShortest));
  if (!telling_ && (!armed() || again_ < next_)) SetNext(again_);
}

void Gateways::SetNext(conf::TimePoint at) {
  next_ = at;
  Set(at);
}

void Gateways::OnAlarm() {
  if (!telling_ && !stopped_) loop_.tasks.Spawn(Tell());
}

net::Task<void> Gateways::Tell() {
  telling_ = true;
  told_ = net::Now();
  if (again_ <= told_) again_ = conf::TimePoint::max();
  const GatewayRecord self = env_.self();
  std::vector<store::Write> writes;
  writes.push_back({.kind = store::kGateway, .id = env_.name, .replaces = version_, .body = BodyOf(self)});
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (committed.ok()) {
    version_ = committed->first;
    lag_ = LagOf(version_, self);
    store_status_.answered = net::Now();
  } else if (absl::IsAborted(committed.status()) || absl::IsUnknown(committed.status())) {
    // A record of an earlier process, or a write whose answer was lost.
    const absl::StatusOr<std::optional<store::Object>> there =
        co_await store_.Get(store::kGateway, env_.name);
    if (there.ok()) {
      version_ = *there ? (*there)->version : 0;
      if (*there) SeeRival((*there)->body, self.id);
      again_ = std::min(again_, told_ + kShortest);
    }
  }
  // A refusal with another version is an answer, too: the next write names that version.
  store_status_.why = absl::IsAborted(committed.status())
                          ? std::string()
                          : std::string(conf::Std(committed.status().message()));
  if (committed.ok() == failing_) {
    failing_ = !committed.ok();
    if (failing_ && !absl::IsAborted(committed.status()))
      log::Warn("other gateways do not see the heartbeats of this one",
                {{"why", conf::Std(committed.status().message())}});
  }
  telling_ = false;
  if (stopped_) co_return;
  const bool busy = Waits(self) || !self.leaving.empty() ||
                    std::ranges::any_of(self.demand, [](const auto& of) { return of.second.active > 0; });
  SetNext(std::min(again_, told_ + (busy ? kBusyInterval : kTellInterval)));
}

void Gateways::SeeRival(const std::string& body, const std::string& own) {
  const absl::StatusOr<GatewayRecord> other = ReadGateway(env_.name, body);
  if (!other.ok() || !IsAnother(*other, own) || std::exchange(rival_, other->start) == other->start) return;
  log::Error("two gateways have one name, and each hides the other", {{"why", WhyTaken(*other, own)}});
}

void Gateways::Replace(const std::vector<store::Object>& all) {
  std::map<std::string, Other, std::less<>> before = std::exchange(others_, {});
  for (const store::Object& object : all) {
    const auto known = before.find(object.id);
    if (known != before.end() && known->second.version == object.version) {
      others_.insert(before.extract(known));
    } else {
      Take(object.id, object.version, object.body);
    }
  }
  for (const auto& [name, other] : before) {
    if (others_.contains(name)) continue;
    demand_.Gone(name);
    tries_.Forget(name);
  }
}

void Gateways::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      demand_.Gone(change.id);
      tries_.Forget(change.id);
      others_.erase(change.id);
      env_.changed();
    }
  }
}

void Gateways::Take(const std::string& name, uint64_t version, const std::string& body) {
  if (name == env_.name) return;
  if (!others_.contains(name) && others_.size() >= kMostGateways) return;
  absl::StatusOr<GatewayRecord> record = ReadGateway(name, body);
  if (!record.ok()) {
    log::Warn("a gateway is skipped", {{"why", conf::Std(record.status().message())}});
    return;
  }
  const conf::TimePoint now = net::Now();
  demand_.Update(*record, now);
  tries_.Update(*record);
  const bool waits = Waits(*record);
  const auto known = others_.find(name);
  const bool news = known == others_.end() || known->second.record.epoch != record->epoch ||
                    known->second.record.start != record->start;
  others_[name] = {.record = *std::move(record), .version = version, .seen = now};
  if (waits) env_.on_waiting();
  if (news) env_.changed();
}

std::vector<GatewayStatus> Gateways::List(conf::TimePoint now) const {
  std::vector<GatewayStatus> list;
  list.push_back({.record = env_.self(), .self = true, .seen = now, .lag = lag_});
  for (const auto& [name, other] : others_) {
    list.push_back({.record = other.record,
                    .live = IsLive(other, now),
                    .seen = other.seen,
                    .lag = LagOf(other.version, other.record)});
  }
  return list;
}

AdapterUses Gateways::Adapters(conf::TimePoint now) const {
  AdapterUses all;
  for (const auto& [name, other] : others_) {
    if (!IsLive(other, now)) continue;
    for (const auto& [id, told] : other.record.adapters) {
      AdapterUse& use = all[id];
      use.waits = use.waits || told.waits;
      if (told.idle)
        use.idle = std::min(use.idle.value_or(conf::Duration::max()), *told.idle + (now - other.seen));
      for (const auto& [replica, requests] : told.in_flight) use.in_flight[replica] += requests;
    }
  }
  return all;
}

bool Gateways::OthersLive(conf::TimePoint now) const {
  return std::ranges::any_of(others_, [&](const auto& of) { return IsLive(of.second, now); });
}

bool Gateways::Lives(std::string_view id, conf::TimePoint now) const {
  return std::ranges::any_of(
      others_, [&](const auto& of) { return of.second.record.id == id && IsLive(of.second, now); });
}

std::optional<uint32_t> Gateways::LeftAt(std::string_view replica, uint64_t change,
                                         conf::TimePoint now) const {
  uint32_t left = 0;
  for (const auto& [name, other] : others_) {
    if (!IsLive(other, now)) continue;
    if (other.record.followed < change) return std::nullopt;
    const auto at = other.record.leaving.find(replica);
    if (at != other.record.leaving.end()) left += at->second;
  }
  return left;
}

net::Task<void> Gateways::RemoveGone(uint64_t epoch, conf::TimePoint now) {
  std::vector<store::Write> writes;
  for (auto& [name, other] : others_) {
    if (!IsLive(other, now) && !std::exchange(other.gone, true)) demand_.Gone(name);
    if (now - other.seen < kForget) continue;
    writes.push_back({.kind = store::kGateway, .id = name, .replaces = other.version, .body = std::nullopt});
  }
  if (!writes.empty()) (co_await store_.Commit(std::move(writes), epoch)).status().IgnoreError();
}

net::Task<absl::StatusOr<std::string>> LivingGateway(net::Loop& loop, store::Store& store,
                                                     conf::Duration lease) {
  const conf::TimePoint until = net::Now() + lease;
  net::Sleep pause(loop.watchdog);
  std::map<std::string, uint64_t> before;
  for (bool first = true;; first = false) {
    const absl::StatusOr<store::Listing> rows = co_await store.List(store::kGateway);
    if (!rows.ok()) co_return rows.status();
    if (rows->objects.empty()) co_return std::string();
    for (const store::Object& row : rows->objects) {
      const auto [known, is_new] = before.try_emplace(row.id, row.version);
      if (!first && (is_new || known->second != row.version)) co_return row.id;
    }
    if (net::Now() >= until) co_return std::string();
    co_await pause.For(kRowPoll);
  }
}

}  // namespace gateway::control
