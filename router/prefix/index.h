// Which replica holds which prompt prefix in its KV cache, as far as the gateway can know: what it has sent
// there, minus what the replica must have evicted since.
//
// An entry says "replica r holds block h". It is predicted when a request is sent, and forgotten after
// `predicted_for` if the request never gets its first token; it is confirmed when the engine has computed the
// block. Where an engine reports its cache itself (kv_residency.h) the entry is reported: it stays until the
// engine removes it, whatever is guessed here, as long as the reports arrive.
//
// All other entries are evicted as engines evict blocks. Blocks of a running request stay. Of the rest a
// replica keeps as many as its KV cache has room for, and drops those whose last request ended first. A
// waiting request takes no room until it is computed; generated tokens take room like a prompt. The order is
// kept in kGenerations generations, and the oldest is dropped as a whole by moving a mark. All blocks of a
// prompt come and go together, so that no block outlives those before it unless another request uses it.
// Dropping a replica moves its mark past everything. Dead entries are cleared when a later call meets them.
//
// Process-wide, callable from every shard. Memory is one fixed amount, reserved at construction (the system
// hands out its pages as they fill) and never exceeded: a full index evicts the oldest of a few entries.
// Blocks are spread over kShards tables by hash, each under a short lock held for one block; at most
// kMaxHolders replicas are known per block. No allocation after construction. The locks are std::mutex, which
// the thread sanitizer sees into; Debian's absl::Mutex it does not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "conf/time.h"
#include "router/prefix/table.h"

namespace router::prefix {

enum class MemberId : uint16_t {};  // a replica in this index; valid from Join to Leave

struct Holder {
  MemberId member{};
  uint32_t blocks = 0;  // length of the held prefix
};

struct IndexOptions {
  size_t max_bytes = size_t{64} << 20;
  conf::Duration predicted_for = std::chrono::seconds(30);  // longer than requests wait in engines
  uint32_t max_members = 8192;                              // at most 65,535
};

struct IndexStats {
  size_t bytes = 0;        // all memory of the index; it never takes more
  size_t capacity = 0;     // entries
  size_t entries = 0;      // dead ones included, until they are cleared
  uint64_t displaced = 0;  // live entries evicted because the index was full
  uint32_t members = 0;
  double BytesPerEntry() const { return static_cast<double>(bytes) / static_cast<double>(capacity); }
};

class Index {
 public:
  static constexpr uint32_t kGenerations = 64;
  static constexpr uint32_t kShare = 24;  // a generation ends after capacity / kShare new blocks
  static constexpr uint32_t kShards = 64;
  static constexpr uint32_t kMaxHolders = 64;

  explicit Index(const IndexOptions& options = {});
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // Adds a replica whose cache has room for this many blocks. Nothing when max_members have joined.
  std::optional<MemberId> Join(uint32_t capacity_blocks);
  void SetCapacity(MemberId member, uint32_t capacity_blocks);
  void Leave(MemberId member);  // drops its entries
  void Clear(MemberId member);  // drops its entries, but it stays: the engine has restarted

  // A request with these blocks was sent to `member`.
  void Predict(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now);
  // The engine has computed them.
  void Confirm(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now);
  // The engine has computed them for a request that runs on them until Release, which adds the `written`
  // blocks that the request has filled since. Each Hold has one Release with the same blocks, before the
  // member leaves.
  void Hold(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now);
  void Release(std::span<const uint64_t> blocks, MemberId member, uint32_t written);

  // Reports of an engine on its own cache. While a member is reporting, its reported blocks do not age; when
  // reports stop arriving they become guesses like all others. DistrustReports makes guesses of all blocks
  // reported so far.
  void SetReporting(MemberId member, bool heard);
  bool reporting(MemberId member) const;
  void DistrustReports(MemberId member);
  void AddReported(uint64_t block, MemberId member, conf::TimePoint now);  // the member holds the block
  void Remove(uint64_t block, MemberId member);  // it does not, whatever was known before
  bool IsReported(uint64_t block, MemberId member) const;

  // Fills `out` with the replicas that hold the longest prefixes, longest first, and returns their number.
  // Among equals any may be left out. Bisection: a few tens of blocks are looked up, whatever the prompt's
  // length.
  size_t Find(std::span<const uint64_t> blocks, conf::TimePoint now, std::span<Holder> out) const;

  IndexStats stats() const;
  uint32_t BlocksOf(MemberId member) const;  // live, neither predicted nor reported in a dropped generation

 private:
  struct alignas(64) Shard {
    mutable std::mutex mutex;  // guards both
    Table table;
    uint64_t displaced = 0;
  };
  struct alignas(64) Member {
    std::atomic<uint32_t> newest{1};
    std::atomic<uint32_t> oldest{1};          // earlier generations are dead, reported entries excepted
    std::atomic<uint32_t> reported_since{1};  // reports before this generation are guesses now
    // The generation in which its cache was last empty; nothing of earlier ones is left.
    std::atomic<uint32_t> began{1};
    std::atomic<int32_t> in_use{0};  // entries with users; in no generation's count
    std::atomic<bool> reporting{false};
    std::atomic<uint32_t> capacity{0};
    std::atomic<uint32_t> fresh{0};  // new blocks in the newest generation
    std::atomic<bool> joined{false};
    std::array<std::atomic<int32_t>, kGenerations> counts{};  // entries, by generation modulo kGenerations
    std::mutex turning;
  };

  enum class Source : uint8_t { kPredicted, kConfirmed, kHeld, kReported };
  void Use(std::span<const uint64_t> blocks, MemberId member, Source source, conf::TimePoint now);
  enum class Used : uint8_t { kAgain, kMoved, kNew };
  Used UseBlock(Shard& shard, uint64_t block, const Entry& fresh);
  void MakeRoom(Shard& shard, uint32_t now);
  void Forget(const Entry& entry);
  bool Live(const Entry& entry, uint32_t now) const;
  static bool IsReported(const Entry& entry, const Member& member);
  static bool InUse(const Entry& entry, const Member& member);
  static int64_t Count(const Member& member);
  uint32_t Advance(Member& member);
  uint32_t Dispatch(Member& member);
  void Trim(Member& member);
  uint32_t Probe(uint64_t block, uint32_t now, std::span<MemberId, kMaxHolders> out) const;

  const uint32_t predicted_ticks_;
  size_t bytes_ = 0;
  std::unique_ptr<Shard[]> shards_;
  const uint32_t max_members_;
  Member* const
      members_;  // room for max_members_: the first used_ are made, so that the rest takes no memory
  mutable std::mutex joining_;  // guards the next two
  std::vector<MemberId> free_;
  uint32_t used_ = 0;
};

}  // namespace router::prefix
