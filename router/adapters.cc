#include "router/adapters.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "router/relaxed.h"

namespace router {
namespace {

// Without word from the engine, an adapter that was not used for so long is taken to be gone.
constexpr conf::Duration kRemembered = std::chrono::minutes(10);
constexpr conf::Duration kStaleAfter = std::chrono::seconds(10);
constexpr double kLongestLoad = 60;  // seconds
constexpr double kLongestWait = 600;
constexpr double kKept = 0.7;  // of what was measured before

constexpr std::array<std::pair<std::string_view, AdapterStanding::At>, 5> kNames = {
    {{"loaded", AdapterStanding::At::kLoaded},
     {"loading", AdapterStanding::At::kLoading},
     {"room", AdapterStanding::At::kRoom},
     {"evicts", AdapterStanding::At::kEvicts},
     {"full", AdapterStanding::At::kFull}}};

int64_t Nanos(conf::TimePoint t) {
  return t.time_since_epoch().count();
}

uint64_t Number(AdapterId id) {
  return static_cast<uint64_t>(id);
}

}  // namespace

AdapterId AdapterIdOf(std::string_view name) {
  return static_cast<AdapterId>(std::max<uint64_t>(1, XXH3_64bits(name.data(), name.size())));
}

std::string_view NameOf(AdapterStanding::At at) {
  return kNames[static_cast<size_t>(at)].first;
}

std::optional<AdapterStanding::At> AdapterStandingNamed(std::string_view name) {
  for (const auto& [word, at] : kNames) {
    if (word == name) return at;
  }
  return std::nullopt;
}

size_t AdapterSlots::IndexOf(AdapterId id) const {
  const uint32_t end = end_.load(kRelaxed);
  for (size_t i = 0; i < end; ++i) {
    if (ids_[i].load(kRelaxed) == Number(id)) return i;
  }
  return kMax;
}

bool AdapterSlots::ReportIsFresh(conf::TimePoint now) const {
  const int64_t at = reported_at_.load(kRelaxed);
  return at != 0 && Nanos(now) - at <= kStaleAfter.count();
}

// With the lock held, like all that follow up to the readers.
void AdapterSlots::Recount() {
  uint32_t end = 0;
  uint32_t count = 0;
  uint32_t in_use = 0;
  uint32_t ours = 0;
  for (uint32_t i = 0; i < kMax; ++i) {
    if (ids_[i].load(kRelaxed) == 0) continue;
    end = i + 1;
    ++count;
    if (InUse(entries_[i])) ++in_use;
    if (entries_[i].in_flight > 0) ++ours;
  }
  end_.store(end, kRelaxed);
  count_.store(count, kRelaxed);
  in_use_.store(in_use, kRelaxed);
  in_use_by_us_.store(ours, kRelaxed);
}

void AdapterSlots::Erase(size_t index) {
  ids_[index].store(0, kRelaxed);
  entries_[index] = {};
  Recount();
}

// Of those that are not in use; kMax where there is none.
size_t AdapterSlots::LeastRecentlyUsed(size_t but) const {
  size_t oldest = kMax;
  for (size_t i = 0; i < kMax; ++i) {
    if (ids_[i].load(kRelaxed) == 0 || InUse(entries_[i]) || i == but) continue;
    if (oldest == kMax || used_at_[i].load(kRelaxed) < used_at_[oldest].load(kRelaxed)) oldest = i;
  }
  return oldest;
}

// Down to the number of slots, as the engine does.
void AdapterSlots::Trim(size_t keep) {
  const uint32_t slots = slots_.load(kRelaxed);
  while (slots > 0 && count_.load(kRelaxed) > slots) {
    const size_t oldest = LeastRecentlyUsed(keep);
    if (oldest == kMax) return;
    Erase(oldest);
  }
}

// kMax where there is no entry for it.
size_t AdapterSlots::Insert(AdapterId id, conf::TimePoint now) {
  size_t at = 0;
  while (at < kMax && ids_[at].load(kRelaxed) != 0) ++at;
  if (at == kMax) at = LeastRecentlyUsed(kMax);
  if (at == kMax) return kMax;
  entries_[at] = {};
  used_at_[at].store(Nanos(now), kRelaxed);
  loading_since_[at].store(0, kRelaxed);
  ids_[at].store(Number(id), kRelaxed);
  Recount();
  Trim(at);
  return at;
}

// Who is in flight is there yet, or will find out; whether what it needs is loaded is not known any more.
void AdapterSlots::Distrust(size_t index, conf::TimePoint now) {
  if (entries_[index].in_flight == 0) {
    Erase(index);
  } else {
    entries_[index].reported = false;
    entries_[index].expected = -1;
    loading_since_[index].store(Nanos(now), kRelaxed);
  }
}

void AdapterSlots::Forget(conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kMax; ++i) {
    if (ids_[i].load(kRelaxed) != 0) Distrust(i, now);
  }
}

void AdapterSlots::OnReport(const Report& report, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (report.started_at > 0) {
    const bool anew = started_at_ > 0 && report.started_at != started_at_;
    started_at_ = report.started_at;
    for (size_t i = 0; anew && i < kMax; ++i) {
      if (ids_[i].load(kRelaxed) != 0) Distrust(i, now);
    }
  }
  if (report.slots > 0) slots_.store(report.slots, kRelaxed);
  for (Entry& entry : entries_) entry.reported = false;
  for (const std::string& name : report.in_use.first(std::min(report.in_use.size(), kMax))) {
    const AdapterId id = AdapterIdOf(name);
    size_t at = IndexOf(id);
    if (at == kMax) at = Insert(id, now);
    if (at == kMax) continue;
    entries_[at].reported = true;
    used_at_[at].store(Nanos(now), kRelaxed);
  }
  reported_at_.store(Nanos(now), kRelaxed);
  Recount();
  Trim(kMax);
}

bool AdapterSlots::Begin(AdapterId id, std::optional<double> expected, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  size_t at = IndexOf(id);
  const bool known = at != kMax;
  if (!known) at = Insert(id, now);
  if (at == kMax) return true;
  if (!known) {
    loading_since_[at].store(Nanos(now), kRelaxed);
    entries_[at].expected = expected.value_or(-1);
    const uint32_t slots = slots_.load(kRelaxed);
    entries_[at].waits = slots > 0 && count_.load(kRelaxed) > slots;
  }
  used_at_[at].store(Nanos(now), kRelaxed);
  ++entries_[at].in_flight;
  Recount();
  return loading_since_[at].load(kRelaxed) != 0;
}

void AdapterSlots::Loaded(AdapterId id, bool first_token, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  for (std::atomic<uint64_t>& lacking : lacking_) {
    if (lacking.load(kRelaxed) == Number(id)) lacking.store(0, kRelaxed);
  }
  const size_t at = IndexOf(id);
  if (at == kMax) return;
  const int64_t since = loading_since_[at].exchange(0, kRelaxed);
  if (since == 0 || !first_token || entries_[at].expected < 0) return;
  const double seconds = static_cast<double>(Nanos(now) - since) * 1e-9 - entries_[at].expected;
  std::atomic<double>& of = entries_[at].waits ? wait_ : load_;
  const double measured = std::clamp(seconds, 0.001, entries_[at].waits ? kLongestWait : kLongestLoad);
  const double before = of.load(kRelaxed);
  of.store(before == 0 ? measured : before * kKept + measured * (1 - kKept), kRelaxed);
}

void AdapterSlots::End(AdapterId id) {
  const std::lock_guard lock(mutex_);
  const size_t at = IndexOf(id);
  if (at == kMax || entries_[at].in_flight == 0) return;
  --entries_[at].in_flight;
  Recount();
  // Who asked for it first has gone before anything came: whether it is loaded now is not known.
  if (entries_[at].in_flight == 0 && loading_since_[at].load(kRelaxed) != 0) Erase(at);
  Trim(kMax);
}

void AdapterSlots::Lacks(AdapterId id, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  const size_t at = IndexOf(id);
  if (at != kMax) Distrust(at, now);
  size_t slot = kMaxLacking;
  for (size_t i = 0; i < kMaxLacking; ++i) {
    if (lacking_[i].load(kRelaxed) == Number(id)) slot = i;
  }
  if (slot == kMaxLacking) slot = next_lacking_++ % kMaxLacking;
  lacking_until_[slot].store(Nanos(now + kLackingFor), kRelaxed);
  lacking_[slot].store(Number(id), kRelaxed);
}

bool AdapterSlots::IsLacking(AdapterId id, conf::TimePoint now) const {
  for (size_t i = 0; i < kMaxLacking; ++i) {
    if (lacking_[i].load(kRelaxed) == Number(id)) return Nanos(now) < lacking_until_[i].load(kRelaxed);
  }
  return false;
}

AdapterStanding AdapterSlots::Read(AdapterId id, conf::TimePoint now) const {
  using At = AdapterStanding::At;
  AdapterStanding standing{.load = load_.load(kRelaxed), .wait = wait_.load(kRelaxed)};
  if (id == AdapterId::kNone) return standing;
  const bool fresh = ReportIsFresh(now);
  const uint32_t slots = slots_.load(kRelaxed);
  const uint32_t count = count_.load(kRelaxed);
  if (const size_t at = IndexOf(id); at != kMax) {
    const int64_t since = loading_since_[at].load(kRelaxed);
    if (since != 0) {
      standing.at = slots > 0 && count > slots ? At::kFull : At::kLoading;
      standing.elapsed = std::max(0.0, static_cast<double>(Nanos(now) - since) * 1e-9);
      return standing;
    }
    if (fresh || Nanos(now) - used_at_[at].load(kRelaxed) <= kRemembered.count()) return standing;
  }
  const uint32_t in_use = fresh ? in_use_.load(kRelaxed) : in_use_by_us_.load(kRelaxed);
  standing.at = slots == 0 || count < slots ? At::kRoom : in_use < slots ? At::kEvicts : At::kFull;
  return standing;
}

AdapterSlots::View AdapterSlots::Look(conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  View view;
  view.slots = slots_.load(kRelaxed);
  view.load = load_.load(kRelaxed);
  for (size_t i = 0; i < kMax; ++i) {
    const auto id = static_cast<AdapterId>(ids_[i].load(kRelaxed));
    if (id == AdapterId::kNone) continue;
    (loading_since_[i].load(kRelaxed) != 0 ? view.loading : view.loaded).push_back(id);
  }
  for (const std::atomic<uint64_t>& lacking : lacking_) {
    const auto id = static_cast<AdapterId>(lacking.load(kRelaxed));
    if (id != AdapterId::kNone && IsLacking(id, now)) view.lacking.push_back(id);
  }
  return view;
}

void AdapterHomes::Add(uint32_t place) {
  for (const std::atomic<uint32_t>& known : places_) {
    if (known.load(kRelaxed) == place + 1) return;
  }
  places_[next_.fetch_add(1, kRelaxed) % places_.size()].store(place + 1, kRelaxed);
}

void AdapterHomes::NoteLacking(conf::TimePoint until) {
  lacking_until_.store(Nanos(until), kRelaxed);
}

bool AdapterHomes::AnyLacks(conf::TimePoint now) const {
  return Nanos(now) < lacking_until_.load(kRelaxed);
}

}  // namespace router
