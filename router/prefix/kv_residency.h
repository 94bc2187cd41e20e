// KV residency: the contents of engines' KV caches, from the KV events that they publish, and the updates of
// the prefix index that follow.
//
// Engines name blocks of tokens; the index names blocks of text. A prompt that is known in both forms links
// them. Its token ids give chained hashes of its token blocks (`keys`: our own, since engines hash in
// different ways), and each text block is linked to the token block that ends nearest to its own end:
// exactly, if the bytes of each token are known; otherwise by proportion, between ends of text blocks that
// were learned before (the turns of a conversation) and the end of the prompt.
//
//   stored    the replica's table gains the block's key; text blocks linked to it are reported to the index
//   removed   the text blocks reported for it are removed from the index at once
//   cleared   the replica's table and its entries in the index are removed
//   learned   for every replica with the prompt's first token block: text blocks whose token block it holds
//             are reported, and those whose token block it lacks are removed
//
// If a replica lacks even the first block of a prompt, the prompt says nothing about that replica: its events
// may be on their way, the prompt may be older than our knowledge of the replica, or its blocks may differ by
// more than their tokens (adapters, images, salts; events of such blocks are ignored). A prompt that was
// never learned stays a prediction, as it is without events. So late or missing knowledge costs accuracy,
// never correctness.
//
// Every table entry remembers the text blocks that it reported, so no report outlives its token block. Links
// of blocks that no replica holds are kept for a while in bounded memory: when a replica stores a known
// block, its text is known without another tokenization. When all tables together are full, further blocks
// are ignored.
//
// One thread calls it; the index that it writes to is shared.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "conf/time.h"
#include "router/prefix/index.h"
#include "router/prefix/recent_map.h"

namespace router::prefix {

// Consecutive blocks that an engine has stored, under its own hashes.
struct StoredBlocks {
  std::span<const uint64_t> hashes;
  std::optional<uint64_t> parent;    // hash before the first; none: the first begins a prompt
  std::span<const uint64_t> tokens;  // block_size per hash
  uint32_t block_size = 0;
};

// A prompt as text blocks and as tokens.
struct LearntPrompt {
  std::span<const uint64_t> blocks;  // text blocks, from BlockHasher
  uint64_t bytes = 0;                // of its canonical text, hashed or not
  std::span<const uint64_t> tokens;
  std::span<const uint64_t> ends;  // canonical bytes up to each token's end; empty: not known
};

struct KvResidencyOptions {
  // Over all replicas; at most 114 bytes each, in two hash tables at their lowest fill.
  size_t max_blocks = size_t{1} << 20;
  size_t max_links = size_t{1} << 18;  // text blocks whose links are kept while no replica holds them
};

struct KvResidencyStats {
  size_t blocks = 0;       // in all tables
  size_t links = 0;        // token blocks whose text is known
  uint64_t orphans = 0;    // blocks stored behind an unknown block
  uint64_t untracked = 0;  // blocks stored while the tables were full
};

class KvResidency {
 public:
  explicit KvResidency(Index& index, const KvResidencyOptions& options = {});

  // Events of a replica begin. Only replicas of one salt (model) share what is learnt.
  void Join(MemberId member, uint64_t salt);
  // Events of a replica end: what they said becomes a guess.
  void Leave(MemberId member);

  void Stored(MemberId member, const StoredBlocks& blocks, conf::TimePoint now);
  void Removed(MemberId member, std::span<const uint64_t> hashes);
  // The replica's cache is empty, or its events were lost, so that nothing known of it is reliable.
  void Clear(MemberId member);
  // The replica's events cannot be understood: what they said becomes a guess.
  void Distrust(MemberId member);

  // A prompt that some replica has computed.
  void Learn(uint64_t salt, const LearntPrompt& prompt, conf::TimePoint now);

  size_t BlocksOf(MemberId member) const;
  KvResidencyStats stats() const;

 private:
  using Texts = absl::InlinedVector<uint64_t, 2>;
  static constexpr size_t kMaxTexts = 8;  // text blocks per token block

  struct Cache {
    uint64_t salt = 0;
    uint32_t block_size = 0;                        // 0: not known yet
    absl::flat_hash_map<uint64_t, uint64_t> keys;   // by the engine's hash
    absl::flat_hash_map<uint64_t, Texts> reported;  // by key: text blocks reported to the index
  };

  std::vector<size_t> TokenEnds(const LearntPrompt& prompt);
  void Empty(Cache& cache);
  void Reconcile(MemberId member, Cache& cache, std::span<const uint64_t> keys,
                 std::span<const uint64_t> texts, conf::TimePoint now);
  static bool AddText(Texts& texts, uint64_t text);

  Index& index_;
  const size_t max_blocks_;
  absl::flat_hash_map<MemberId, std::unique_ptr<Cache>> caches_;
  RecentMap<Texts> links_;          // by key
  RecentMap<uint32_t> token_ends_;  // by text block: number of tokens up to its end
  size_t blocks_ = 0;
  uint64_t orphans_ = 0;
  uint64_t untracked_ = 0;
};

}  // namespace router::prefix
