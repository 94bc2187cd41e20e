// The KV memory of one engine, in blocks: what running sequences hold, and the prefixes kept for the next
// ones.
//
// A block that is full and whose content is known by its chained hash is shared: any sequence with the same
// prefix pins it, and without a pin it stays until it is the least recently used and its place is needed.
// All other blocks are plain: they have no identity and are only counted, so memory here grows with the
// cached prefixes alone.
//
// Owned by one Model; no thread safety. Every operation is O(blocks touched).
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace scheduler::engine {

// The blocks of one sequence: `shared` are its first blocks, in order; `plain` follow them.
struct Holding {
  std::vector<uint32_t> shared;
  uint32_t plain = 0;

  uint32_t Blocks() const { return static_cast<uint32_t>(shared.size()) + plain; }
};

// A prefix block has come into the cache, or was evicted from it.
struct KvChange {
  uint64_t hash = 0;
  bool stored = false;
};

class KvCache {
 public:
  KvCache(uint32_t blocks, bool keep_prefixes) : capacity_(blocks), keep_prefixes_(keep_prefixes) {}

  // How many of the first `hashes` are cached, without a gap.
  size_t Match(std::span<const uint64_t> hashes) const;

  // Gives an empty holding the blocks of `hashes`, all of which Match has just found, and `plain` more.
  // False, with nothing changed but the age of the blocks, when there is no room.
  bool Admit(std::span<const uint64_t> hashes, uint32_t plain, Holding& holding);

  // Adds plain blocks, evicting unreferenced prefixes from the least recently used on. False when there is no
  // room.
  bool Reserve(uint32_t plain, Holding& holding);

  // Makes the holding's blocks that are full by now shared under their hashes. A block that another sequence
  // has published meanwhile is used instead of ours, which is given back.
  void Publish(std::span<const uint64_t> full, Holding& holding);

  // Gives everything back. The end of a prefix becomes older than its beginning, so it is evicted first.
  void Release(Holding& holding);

  // Appends every change from now on, in order; null: changes are not recorded. The list must outlive the
  // cache.
  void RecordTo(std::vector<KvChange>* changes) { changes_ = changes; }

  uint32_t capacity() const { return capacity_; }
  uint32_t used() const { return plain_ + pinned_; }         // held by sequences
  uint32_t available() const { return capacity_ - used(); }  // free, or evictable
  uint32_t cached() const { return static_cast<uint32_t>(index_.size()); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Block {
    uint64_t hash = 0;
    uint32_t references = 0;
    uint32_t older = kNone;  // neighbours in the LRU list of unreferenced blocks
    uint32_t newer = kNone;
  };

  void Pin(uint32_t block);
  void Unpin(uint32_t block);
  void Unlink(uint32_t block);
  void MakeRoom(uint32_t blocks);
  void EvictOldest();

  uint32_t capacity_;
  bool keep_prefixes_;
  uint32_t plain_ = 0;
  uint32_t pinned_ = 0;
  absl::flat_hash_map<uint64_t, uint32_t> index_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> unused_;  // slots of blocks_
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  std::vector<KvChange>* changes_ = nullptr;
};

}  // namespace scheduler::engine
