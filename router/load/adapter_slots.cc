#include "router/load/adapter_slots.h"

#include <algorithm>
#include <utility>

#include "conf/words.h"
#include "router/relaxed.h"

namespace router {
namespace {

// Without a report, an adapter that was unused for this long is taken to be evicted.
constexpr conf::Duration kRemembered = std::chrono::minutes(10);
constexpr conf::Duration kStaleAfter = std::chrono::seconds(10);
constexpr double kLongestLoad = 60;  // seconds
constexpr double kLongestWait = 600;
constexpr double kKept = 0.7;  // weight of earlier measurements

constexpr conf::Word<AdapterAvailability::State> kStateWords[] = {
    {"loaded", AdapterAvailability::State::kLoaded},
    {"loading", AdapterAvailability::State::kLoading},
    {"room", AdapterAvailability::State::kFreeSlot},
    {"evicts", AdapterAvailability::State::kEvicts},
    {"full", AdapterAvailability::State::kFull}};

int64_t Nanos(conf::TimePoint t) {
  return t.time_since_epoch().count();
}

uint64_t Number(AdapterId id) {
  return static_cast<uint64_t>(id);
}

}  // namespace

std::string_view NameOf(AdapterAvailability::State state) {
  return conf::WordOf(kStateWords, state);
}

std::optional<AdapterAvailability::State> AdapterStateNamed(std::string_view name) {
  return conf::ValueOf(kStateWords, name);
}

size_t AdapterSlots::IndexOf(AdapterId id) const {
  const uint32_t end = end_.load(kRelaxed);
  for (size_t i = 0; i < end; ++i) {
    if (ids_[i].load(kRelaxed) == Number(id)) return i;
  }
  return kMax;
}

size_t AdapterSlots::IndexOfHeld(AdapterId id) const {
  const uint32_t end = held_end_.load(kRelaxed);
  for (size_t i = 0; i < end; ++i) {
    if (held_[i].load(kRelaxed) == Number(id)) return i;
  }
  return kMaxHeld;
}

bool AdapterSlots::ReportIsFresh(conf::TimePoint now) const {
  const int64_t at = reported_at_.load(kRelaxed);
  return at != 0 && Nanos(now) - at <= kStaleAfter.count();
}

// All up to the readers need mutex_ held.
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

// The least recently used entry that is not in use; kMax when all are.
size_t AdapterSlots::LeastRecentlyUsed(size_t but) const {
  size_t oldest = kMax;
  for (size_t i = 0; i < kMax; ++i) {
    if (ids_[i].load(kRelaxed) == 0 || InUse(entries_[i]) || i == but) continue;
    if (oldest == kMax || used_at_[i].load(kRelaxed) < used_at_[oldest].load(kRelaxed)) oldest = i;
  }
  return oldest;
}

// Evicts down to the number of slots, as the engine does.
void AdapterSlots::Trim(size_t keep) {
  const uint32_t slots = slots_.load(kRelaxed);
  while (slots > 0 && count_.load(kRelaxed) > slots) {
    const size_t oldest = LeastRecentlyUsed(keep);
    if (oldest == kMax) return;
    Erase(oldest);
  }
}

// kMax when every entry is in use.
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

// Requests in flight keep the entry, but whether the adapter is loaded is no longer known.
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
    const bool restarted = started_at_ > 0 && report.started_at != started_at_;
    started_at_ = report.started_at;
    for (size_t i = 0; restarted && i < kMax; ++i) {
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
  if (const size_t held = IndexOfHeld(id); held != kMaxHeld) held_used_at_[held].store(Nanos(now), kRelaxed);
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
  for (std::atomic<uint64_t>& missing : missing_) {
    if (missing.load(kRelaxed) == Number(id)) missing.store(0, kRelaxed);
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
  // Its first request left before a token came: whether the adapter is loaded is not known.
  if (entries_[at].in_flight == 0 && loading_since_[at].load(kRelaxed) != 0) Erase(at);
  Trim(kMax);
}

void AdapterSlots::NoteMissing(AdapterId id, conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (const size_t held = IndexOfHeld(id); held != kMaxHeld) held_[held].store(0, kRelaxed);
  const size_t at = IndexOf(id);
  if (at != kMax) Distrust(at, now);
  size_t slot = kMaxMissing;
  for (size_t i = 0; i < kMaxMissing; ++i) {
    if (missing_[i].load(kRelaxed) == Number(id)) slot = i;
  }
  if (slot == kMaxMissing) slot = next_missing_++ % kMaxMissing;
  missing_until_[slot].store(Nanos(now + kMissingFor), kRelaxed);
  missing_[slot].store(Number(id), kRelaxed);
}

bool AdapterSlots::IsMissing(AdapterId id, conf::TimePoint now) const {
  for (size_t i = 0; i < kMaxMissing; ++i) {
    if (missing_[i].load(kRelaxed) == Number(id)) return Nanos(now) < missing_until_[i].load(kRelaxed);
  }
  return false;
}

void AdapterSlots::SetHeld(std::span<const AdapterId> ids) {
  const std::lock_guard lock(mutex_);
  for (std::atomic<uint64_t>& held : held_) {
    const auto id = static_cast<AdapterId>(held.load(kRelaxed));
    if (id != AdapterId::kNone && std::ranges::find(ids, id) == ids.end()) held.store(0, kRelaxed);
  }
  for (const AdapterId id : ids) {
    if (IndexOfHeld(id) != kMaxHeld) continue;
    const auto* const free = std::ranges::find_if(
        held_, [](const std::atomic<uint64_t>& held) { return held.load(kRelaxed) == 0; });
    if (free == held_.end()) break;
    const auto at = static_cast<size_t>(free - held_.begin());
    held_used_at_[at].store(0, kRelaxed);
    held_[at].store(Number(id), kRelaxed);
    held_end_.store(std::max(held_end_.load(kRelaxed), static_cast<uint32_t>(at + 1)), kRelaxed);
  }
}

bool AdapterSlots::Holds(AdapterId id) const {
  return IndexOfHeld(id) != kMaxHeld;
}

AdapterSlots::Use AdapterSlots::ReadUse(AdapterId id) const {
  const std::lock_guard lock(mutex_);
  Use use;
  if (const size_t at = IndexOf(id); at != kMax) use.in_flight = entries_[at].in_flight;
  if (const size_t held = IndexOfHeld(id); held != kMaxHeld) {
    const int64_t at = held_used_at_[held].load(kRelaxed);
    if (at != 0) use.last = conf::TimePoint(conf::Duration(at));
  }
  return use;
}

AdapterAvailability AdapterSlots::Read(AdapterId id, conf::TimePoint now) const {
  using State = AdapterAvailability::State;
  AdapterAvailability availability{.load = load_.load(kRelaxed), .wait = wait_.load(kRelaxed)};
  if (id == AdapterId::kNone) return availability;
  const bool fresh = ReportIsFresh(now);
  const uint32_t slots = slots_.load(kRelaxed);
  const uint32_t count = count_.load(kRelaxed);
  if (const size_t at = IndexOf(id); at != kMax) {
    const int64_t since = loading_since_[at].load(kRelaxed);
    if (since != 0) {
      availability.state = slots > 0 && count > slots ? State::kFull : State::kLoading;
      availability.elapsed = std::max(0.0, static_cast<double>(Nanos(now) - since) * 1e-9);
      return availability;
    }
    if (fresh || Nanos(now) - used_at_[at].load(kRelaxed) <= kRemembered.count()) return availability;
  }
  const uint32_t in_use = fresh ? in_use_.load(kRelaxed) : in_use_by_us_.load(kRelaxed);
  availability.state = slots == 0 || count < slots ? State::kFreeSlot
                       : in_use < slots            ? State::kEvicts
                                                   : State::kFull;
  return availability;
}

AdapterSlots::Contents AdapterSlots::ReadContents(conf::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  Contents contents;
  contents.slots = slots_.load(kRelaxed);
  contents.load = load_.load(kRelaxed);
  for (size_t i = 0; i < kMax; ++i) {
    const auto id = static_cast<AdapterId>(ids_[i].load(kRelaxed));
    if (id == AdapterId::kNone) continue;
    (loading_since_[i].load(kRelaxed) != 0 ? contents.loading : contents.loaded).push_back(id);
  }
  for (const std::atomic<uint64_t>& missing : missing_) {
    const auto id = static_cast<AdapterId>(missing.load(kRelaxed));
    if (id != AdapterId::kNone && IsMissing(id, now)) contents.missing.push_back(id);
  }
  return contents;
}

void AdapterPlacements::Add(uint32_t place) {
  for (const std::atomic<uint32_t>& known : places_) {
    if (known.load(kRelaxed) == place + 1) return;
  }
  places_[next_.fetch_add(1, kRelaxed) % places_.size()].store(place + 1, kRelaxed);
}

void AdapterPlacements::NoteMissing(conf::TimePoint until) {
  missing_until_.store(Nanos(until), kRelaxed);
}

bool AdapterPlacements::AnyMissing(conf::TimePoint now) const {
  return Nanos(now) < missing_until_.load(kRelaxed);
}

}  // namespace router
