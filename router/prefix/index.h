// Which replica holds which prompt prefix in its KV cache, as far as the gateway can know: what it has sent
// there, minus what the replica must have evicted since.
//
// An entry says "replica r holds block h". It is predicted when a request is sent (and forgotten in
// `predicted_for`, should the request never get to its first token) and confirmed when the engine has
// computed it. Where an engine tells of its cache itself (holdings.h), it is told: it then stays, whatever is
// guessed here, until the engine takes it back, as long as the engine's word is heard.
//
// All else is evicted as engines do it. What a running request holds stays. Of the rest a replica keeps as
// many blocks as its KV cache has room for, and those whose last request ended first go first. What waits
// takes no room yet; what was generated takes it like a prompt, until its turn comes. The order is kept in
// kGenerations generations, and the oldest is dropped as a whole, by moving a mark. A prompt's blocks come
// and go at once, so that where nobody else uses them none outlives those before it. Dropping a replica moves
// its mark past everything. Dead entries are cleared away when a later call comes across them.
//
// Process-wide, callable from every shard. Memory is one fixed amount, taken at construction (the system
// gives the pages as they fill) and never exceeded: when it is full, the oldest of a few entries gives way.
// Blocks are spread over kShards tables by hash, each under a short lock held for one block; at most
// kMaxHolders replicas are known for one block. Allocation-free after construction. The locks are std::mutex,
// which the thread sanitizer sees into; Debian's absl::Mutex it does not.
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

enum class MemberId : uint16_t {};  // a replica in this index; given by Join, void after Leave

struct Holder {
  MemberId member{};
  uint32_t blocks = 0;  // of the prompt's first ones
};

struct Options {
  size_t max_bytes = size_t{64} << 20;
  conf::Duration predicted_for = std::chrono::seconds(30);  // must outlive the engines' queues
  uint32_t max_members = 8192;                              // at most 65,535
};

struct Stats {
  size_t bytes = 0;        // all memory of the index; the most it will ever take
  size_t capacity = 0;     // entries
  size_t entries = 0;      // dead ones included until they are cleared
  uint64_t displaced = 0;  // live entries that gave way since the index was full
  uint32_t members = 0;
  double BytesPerEntry() const { return static_cast<double>(bytes) / static_cast<double>(capacity); }
};

class Index {
 public:
  static constexpr uint32_t kGenerations = 64;
  static constexpr uint32_t kShare = 24;  // a generation is full with this part of the capacity in new blocks
  static constexpr uint32_t kShards = 64;
  static constexpr uint32_t kMaxHolders = 64;

  explicit Index(const Options& options = {});

  // A replica with room for so many blocks. None when max_members have joined.
  std::optional<MemberId> Join(uint32_t capacity_blocks);
  void SetCapacity(MemberId member, uint32_t capacity_blocks);
  void Leave(MemberId member);  // its entries are gone at once
  void Clear(MemberId member);  // the same, but it stays: the engine has restarted

  // A request with these blocks is on its way to `member`.
  void Predict(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now);
  // The engine has computed them.
  void Confirm(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now);
  // ... for a request that runs on them until Release, by when it has filled `written` blocks more. The same
  // blocks; each Hold has its Release, before the member is another's.
  void Hold(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now);
  void Release(std::span<const uint64_t> blocks, MemberId member, uint32_t written);

  // What an engine itself says of a replica. While it is heard, its blocks are no guess: they do not age. Who
  // is not heard any more is guessed at, told blocks included; Doubt makes guesses of all that was told so
  // far.
  void SetHeard(MemberId member, bool heard);
  bool heard(MemberId member) const;
  void Doubt(MemberId member);
  void Tell(uint64_t block, MemberId member, conf::TimePoint now);  // it holds the block
  void Retract(uint64_t block, MemberId member);                    // it does not, whoever said so
  bool Told(uint64_t block, MemberId member) const;

  // Those that hold the longest prefixes, the longest first, as many as `out` has room for. Of replicas that
  // hold equally much, any. Finds the lengths by bisection: a few tens of blocks are looked up, whatever the
  // length of the prompt.
  size_t Find(std::span<const uint64_t> blocks, conf::TimePoint now, std::span<Holder> out) const;

  Stats stats() const;
  uint32_t BlocksOf(MemberId member) const;  // live ones, predicted ones and told ones of old left out

 private:
  struct alignas(64) Shard {
    mutable std::mutex mutex;  // of both
    Table table;
    uint64_t displaced = 0;
  };
  struct alignas(64) Member {
    std::atomic<uint32_t> newest{1};
    std::atomic<uint32_t> oldest{1};      // entries of earlier generations are dead, unless they were told
    std::atomic<uint32_t> told_since{1};  // what was told before is a guess by now
    std::atomic<uint32_t> began{
        1};  // generation in which its cache was empty; of earlier ones nothing is left
    std::atomic<int32_t> in_use{0};  // entries that have users; in no generation's count
    std::atomic<bool> heard{false};
    std::atomic<uint32_t> capacity{0};
    std::atomic<uint32_t> fresh{0};  // blocks that were new to it in the newest generation
    std::atomic<bool> joined{false};
    std::array<std::atomic<int32_t>, kGenerations> counts{};  // entries, by generation modulo kGenerations
    std::mutex turning;
  };

  enum class Word : uint8_t { kPredicted, kConfirmed, kHeld, kTold };
  void Use(std::span<const uint64_t> blocks, MemberId member, Word word, conf::TimePoint now);
  enum class Used : uint8_t { kAgain, kMoved, kNew };
  Used UseBlock(Shard& shard, uint64_t block, const Entry& fresh);
  void MakeRoom(Shard& shard, uint32_t now);
  void Forget(const Entry& entry);
  bool Live(const Entry& entry, uint32_t now) const;
  static bool IsTold(const Entry& entry, const Member& member);
  static bool InUse(const Entry& entry, const Member& member);
  static int64_t Count(const Member& member);
  uint32_t Advance(Member& member);
  uint32_t Turn(Member& member);
  void Trim(Member& member);
  uint32_t Probe(uint64_t block, uint32_t now, std::span<MemberId, kMaxHolders> out) const;

  const uint32_t predicted_ticks_;
  size_t bytes_ = 0;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<Member[]> members_;
  const uint32_t max_members_;
  mutable std::mutex joining_;  // of the two that follow
  std::vector<MemberId> free_;
  uint32_t used_ = 0;
};

}  // namespace router::prefix
