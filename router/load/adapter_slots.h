// Which LoRA adapters an engine has in its slots, as far as this process can know: from what it has sent
// there and from what the engine reports as in use.
//
// An engine loads an adapter when its first request is scheduled, keeps as many as it has slots, and evicts
// the least recently used one that no request uses. AdapterSlots applies the same rule to what it knows, so
// it needs no telemetry; telemetry adds the number of slots and the adapters that others use. A restarted
// engine has nothing loaded.
//
// Process-wide, one per replica. Written under a short lock when a request for an adapter begins or ends
// there and when the engine reports; read by every shard without a lock, entry by entry, so a reading may be
// a moment old. Bounded: kMax adapters, the least recently used is forgotten first.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/routes/adapter_id.h"

namespace router {

// The state of an adapter at a replica, as a request for it would find it.
struct AdapterAvailability {
  enum class State : uint8_t {
    kLoaded,    // or the request needs no adapter
    kLoading,   // another request has caused it to be loaded
    kFreeSlot,  // it must be loaded; a slot is free
    kEvicts,    // it must be loaded; an unused adapter is evicted for it
    kFull,      // all slots are in use: it must wait for one
  };
  State state = State::kLoaded;
  double load = 0;     // seconds that loading takes here; 0: not measured
  double wait = 0;     // seconds until a slot is free when all are in use; 0: not measured
  double elapsed = 0;  // seconds since loading began, while it is loading

  friend bool operator==(const AdapterAvailability&, const AdapterAvailability&) = default;
};
// "loaded", "loading", "room", "evicts", "full": stable, since recorded picks hold them.
std::string_view NameOf(AdapterAvailability::State state);
std::optional<AdapterAvailability::State> AdapterStateNamed(std::string_view name);

class AdapterSlots {
 public:
  static constexpr size_t kMax = 64;
  static constexpr size_t kMaxHeld = 128;

  // The engine's own report.
  struct Report {
    std::span<const std::string> in_use = {};  // names of adapters with running or waiting requests
    uint32_t slots = 0;                        // 0: not reported
    double started_at = 0;                     // when its process started, Unix seconds; 0: not reported
  };
  void OnReport(const Report& report, conf::TimePoint now);
  // The engine is gone or has restarted.
  void Forget(conf::TimePoint now);

  // A request for the adapter goes there. `expected`: seconds to its first token if the adapter is loaded,
  // where that is known. Returns whether the adapter has to be loaded first.
  bool Begin(AdapterId id, std::optional<double> expected, conf::TimePoint now);
  // The adapter is loaded, because a first token or an answer came. A first token also shows how long the
  // load, or the wait for a slot and the load, took.
  void Loaded(AdapterId id, bool first_token, conf::TimePoint now);
  void End(AdapterId id);
  // The engine has no such adapter: requests avoid the replica for kMissingFor.
  void NoteMissing(AdapterId id, conf::TimePoint now);

  // The adapters in the engine's list that the gateway itself loads and unloads there. Adapters beyond kMaxHeld are
  // ignored.
  void SetHeld(std::span<const AdapterId> ids);
  bool Holds(AdapterId id) const;

  struct Use {
    uint32_t in_flight = 0;                 // requests of this process
    std::optional<conf::TimePoint> last{};  // when the last one began, of a held adapter; nothing: none has
  };
  Use ReadUse(AdapterId id) const;

  AdapterAvailability Read(AdapterId id, conf::TimePoint now) const;
  bool IsMissing(AdapterId id, conf::TimePoint now) const;

  struct Contents {
    std::vector<AdapterId> loaded;
    std::vector<AdapterId> loading;
    std::vector<AdapterId> missing;
    uint32_t slots = 0;  // 0: not known
    double load = 0;     // seconds; 0: not measured
  };
  Contents ReadContents(conf::TimePoint now) const;

 private:
  static constexpr size_t kMaxMissing = 16;

  // The rest of the entry with the same index; guarded by mutex_.
  struct Entry {
    uint32_t in_flight = 0;  // our requests
    bool reported = false;   // in use by the last report
    bool waits = false;      // for a slot, before it can be loaded
    double expected = -1;    // seconds to the first token without loading; below 0: not known
  };

  size_t IndexOf(AdapterId id) const;
  size_t IndexOfHeld(AdapterId id) const;
  size_t Insert(AdapterId id, conf::TimePoint now);
  void Erase(size_t index);
  size_t LeastRecentlyUsed(size_t but) const;
  void Trim(size_t keep);
  void Distrust(size_t index, conf::TimePoint now);
  bool InUse(const Entry& entry) const { return entry.in_flight > 0 || entry.reported; }
  void Recount();
  bool ReportIsFresh(conf::TimePoint now) const;

  std::array<std::atomic<uint64_t>, kMax> ids_{};  // 0: unused
  std::array<std::atomic<int64_t>, kMax> used_at_{};
  std::array<std::atomic<int64_t>, kMax> loading_since_{};  // 0: it is loaded
  std::atomic<uint32_t> end_{0};                            // entries from here on are unused
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> in_use_{0};
  std::atomic<uint32_t> in_use_by_us_{0};
  std::atomic<uint32_t> slots_{0};
  std::atomic<int64_t> reported_at_{0};
  std::atomic<double> load_{0};
  std::atomic<double> wait_{0};
  std::array<std::atomic<uint64_t>, kMaxMissing> missing_{};
  std::array<std::atomic<int64_t>, kMaxMissing> missing_until_{};

  // An entry stays where it is while its adapter is held, so that a reader never misses one that is.
  std::array<std::atomic<uint64_t>, kMaxHeld> held_{};  // 0: unused
  std::array<std::atomic<int64_t>, kMaxHeld> held_used_at_{};
  std::atomic<uint32_t> held_end_{0};  // entries from here on are unused

  mutable std::mutex mutex_;
  std::array<Entry, kMax> entries_{};
  double started_at_ = 0;
  size_t next_missing_ = 0;
};

// Where requests for one adapter were sent lately, so that a policy that looks at a few replicas includes
// these, and whether any engine was found to miss the adapter. One per adapter and route table; lock-free.
class AdapterPlacements {
 public:
  void Add(uint32_t place);
  void NoteMissing(conf::TimePoint until);
  bool AnyMissing(conf::TimePoint now) const;
  std::span<const std::atomic<uint32_t>> places() const { return places_; }

 private:
  std::array<std::atomic<uint32_t>, 8> places_{};  // place + 1; 0: none
  std::atomic<uint32_t> next_{0};
  std::atomic<int64_t> missing_until_{0};
};

// How long requests for an adapter avoid a replica that misses it.
inline constexpr conf::Duration kMissingFor = std::chrono::seconds(30);

}  // namespace router
