// The KV memory of one engine, in blocks: those of running sequences, and prefixes that are kept for later
// sequences.
//
// A full block with a known chained hash is shared: any sequence with the same prefix pins it, and without a
// pin it stays until it is the least recently used and its memory is needed. All other blocks are plain: they
// have no identity and are only counted, so memory here grows with the cached prefixes alone.
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
struct KvBlocks {
  std::vector<uint32_t> shared;
  uint32_t plain = 0;

  uint32_t Blocks() const { return static_cast<uint32_t>(shared.size()) + plain; }
};

// A prefix block was stored in the cache, or evicted from it.
struct KvChange {
  uint64_t hash = 0;
  bool stored = false;
};

class KvCache {
 public:
  KvCache(uint32_t blocks, bool keep_prefixes) : capacity_(blocks), keep_prefixes_(keep_prefixes) {}

  // How many of the first `hashes` are cached, without a gap.
  size_t Match(std::span<const uint64_t> hashes) const;

  // Gives an empty holding the blocks of `hashes`, all of which Match has just found, and `plain` more. False
  // when there is no room; then only the age of the blocks has changed.
  bool Admit(std::span<const uint64_t> hashes, uint32_t plain, KvBlocks& holding);

  // Adds plain blocks, and evicts the least recently used unpinned prefixes for them. False when there is no
  // room.
  bool Reserve(uint32_t plain, KvBlocks& holding);

  // Makes the full blocks of the holding shared under their hashes. A block that another sequence has
  // published meanwhile replaces ours, which is freed.
  void Publish(std::span<const uint64_t> full, KvBlocks& holding);

  // Frees all blocks. The end of a prefix becomes older than its beginning, so that it is evicted first.
  void Release(KvBlocks& holding);

  // Appends every change from now on, in order; null: records no changes. The list must outlive the cache.
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
