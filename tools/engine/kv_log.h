// KvLog: the changes of the blocks in the model's prefix cache, with the tokens of the blocks.
//
// The model knows only the hashes of blocks. A sequence's tokens are kept from its beginning until neither a
// sequence nor the cache has the block. One thread. Memory grows with the blocks of the cache and of
// the sequences in the model.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/engine/kv_cache.h"

namespace tidegate_engine {

// Consecutive blocks of a prompt that were stored in the cache, or blocks that were removed.
struct KvEvent {
  bool stored = false;
  std::vector<uint64_t> hashes;
  std::optional<uint64_t> parent;  // of the first stored one; none: it begins a prompt
  std::vector<uint64_t> tokens;    // of the stored ones
};

class KvLog {
 public:
  explicit KvLog(uint32_t block_size) : block_size_(block_size) {}

  // Where the model's cache records its changes.
  std::vector<scheduler::engine::KvChange>& changes() { return changes_; }

  // Registers a sequence that may fill `blocks`, whose tokens begin `tokens`.
  void Begin(uint64_t sequence, const std::vector<uint64_t>& blocks, std::span<const uint64_t> tokens);
  void End(uint64_t sequence);  // nothing for one that is not known

  std::vector<KvEvent> Take();
  uint64_t batches() const { return batches_; }  // batches taken that were not empty

  uint32_t block_size() const { return block_size_; }

 private:
  struct Content {
    std::optional<uint64_t> parent;
    std::vector<uint64_t> tokens;
    uint32_t sequences = 0;
    bool cached = false;
  };

  void Absorb();
  void Drop(uint64_t block);

  const uint32_t block_size_;
  std::vector<scheduler::engine::KvChange> changes_;
  absl::flat_hash_map<uint64_t, std::vector<uint64_t>> sequences_;
  absl::flat_hash_map<uint64_t, Content> contents_;
  std::vector<KvEvent> events_;
  uint64_t batches_ = 0;
};

}  // namespace tidegate_engine
