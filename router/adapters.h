// Which LoRA adapters an engine has in its slots, as far as that can be known from here: what this process
// has sent there, and what the engine says is in use.
//
// Engines load an adapter when its first request is scheduled, keep as many as they have slots, and put out
// the one that was used longest ago of those that nobody uses. AdapterSlots does the same with what it knows,
// so it needs no telemetry: that brings the number of slots, and what others have sent there. An engine that
// has begun anew has nothing loaded.
//
// Process-wide, one for each replica. Written when a request for an adapter begins and ends there and when
// the engine is asked, under a short lock; read by every shard without one, entry by entry: what is read may
// be a moment old. Bounded: kMax adapters, those used longest ago go first.
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

namespace router {

enum class AdapterId : uint64_t { kNone = 0 };
// Of its name at the engine; never kNone.
AdapterId AdapterIdOf(std::string_view name);

// What one request for an adapter finds at one replica.
struct AdapterStanding {
  enum class At : uint8_t {
    kLoaded,   // or the request is for no adapter
    kLoading,  // for somebody else already
    kRoom,     // a slot is free
    kEvicts,   // one that is not in use has to go
    kFull,     // all slots are in use: it must wait for one
  };
  At at = At::kLoaded;
  double load = 0;     // seconds that loading takes here; 0: not measured
  double wait = 0;     // seconds for a slot, when all are in use; 0: not measured
  double elapsed = 0;  // of these, when it is loading

  friend bool operator==(const AdapterStanding&, const AdapterStanding&) = default;
};
std::string_view NameOf(AdapterStanding::At at);
std::optional<AdapterStanding::At> AdapterStandingNamed(std::string_view name);

class AdapterSlots {
 public:
  static constexpr size_t kMax = 64;

  // What an engine says of itself.
  struct Report {
    std::span<const std::string> in_use = {};  // names; requests run with these, or wait for them
    uint32_t slots = 0;                        // 0: not said
    double started_at = 0;                     // when its process began, Unix seconds; 0: not said
  };
  void OnReport(const Report& report, conf::TimePoint now);
  // The engine is gone, or has begun anew.
  void Forget(conf::TimePoint now);

  // A request for it goes there, and should have its first token `expected` seconds later if the adapter is
  // loaded; nothing: not known. True when the adapter has to be loaded first.
  bool Begin(AdapterId id, std::optional<double> expected, conf::TimePoint now);
  // A first token has come, which says how long loading took, or the wait for a slot and that; or an answer,
  // which does not.
  void Loaded(AdapterId id, bool first_token, conf::TimePoint now);
  void End(AdapterId id);
  // The engine says that it has no such adapter: others are asked for a while.
  void Lacks(AdapterId id, conf::TimePoint now);

  AdapterStanding Read(AdapterId id, conf::TimePoint now) const;
  bool IsLacking(AdapterId id, conf::TimePoint now) const;

  struct View {
    std::vector<AdapterId> loaded;
    std::vector<AdapterId> loading;
    std::vector<AdapterId> lacking;
    uint32_t slots = 0;  // 0: not known
    double load = 0;     // seconds; 0: not measured
  };
  View Look(conf::TimePoint now) const;

 private:
  static constexpr size_t kMaxLacking = 16;

  // Of the entry with the same index, for who has the lock.
  struct Entry {
    uint32_t in_flight = 0;  // ours
    bool reported = false;   // in use, by the last report
    bool waits = false;      // for a slot, before it can be loaded
    double expected = -1;    // seconds to the first token, without loading; below 0: not known
  };

  size_t IndexOf(AdapterId id) const;
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
  std::array<std::atomic<uint64_t>, kMaxLacking> lacking_{};
  std::array<std::atomic<int64_t>, kMaxLacking> lacking_until_{};

  mutable std::mutex mutex_;
  std::array<Entry, kMax> entries_{};
  double started_at_ = 0;
  size_t next_lacking_ = 0;
};

// What a table's requests for one adapter share: where it has lately been sent, so that who looks at a few
// replicas looks at these too, and whether any engine was found to lack it.
class AdapterHomes {
 public:
  void Add(uint32_t place);
  void NoteLacking(conf::TimePoint until);
  bool AnyLacks(conf::TimePoint now) const;
  std::span<const std::atomic<uint32_t>> places() const { return places_; }

 private:
  std::array<std::atomic<uint32_t>, 8> places_{};  // place + 1; 0: none
  std::atomic<uint32_t> next_{0};
  std::atomic<int64_t> lacking_until_{0};
};

// For so long is a replica that lacks an adapter not asked for it.
inline constexpr conf::Duration kLackingFor = std::chrono::seconds(30);

}  // namespace router
