// What engines that tell of their KV cache say they hold, and what that means for the prefix index.
//
// Engines speak of blocks of tokens, the index of blocks of text; a prompt that is known in both forms links
// them. From its token ids follow the chained hashes of its token blocks (`keys`, ours: engines hash in ways
// of their own), and each text block is linked to the token block that ends nearest to where it ends:
// exactly, where it is known which bytes each token stands for, else by proportion between the ends of text
// blocks that were learnt before (the turns of a conversation) and the end of the prompt.
//
//   stored    a replica's table takes the block's key; text blocks linked to it are told to the index
//   removed   the text blocks that were told by it are taken back from the index, at once
//   cleared   the table is empty, and so is what the index has of the replica
//   learnt    for every replica that holds the prompt's first token block: text blocks whose token block it
//             holds are told, those whose token block it does not hold are taken back
//
// A prompt of which a replica does not hold even the first block says nothing: its events may be on their
// way, its beginning may be older than our knowledge of the replica, or its blocks are told apart by more
// than their tokens (adapters, images, salts; such blocks are left out). What was never learnt stays what it
// was without events, a guess. So knowledge that begins late, or a prompt that is not tokenised, costs
// exactness and never correctness.
//
// Every table entry remembers which text blocks it has told, so that nothing told outlives its token block.
// Links of blocks that nobody holds are kept for a while in bounded memory: a replica that stores a known
// block is known to hold its text without tokenising anything again. When all tables together are full,
// further blocks are not taken.
//
// One thread; the index it writes to is everybody's.
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
  std::optional<uint64_t> parent;    // of the first; none: it begins a prompt
  std::span<const uint64_t> tokens;  // block_size for each hash
  uint32_t block_size = 0;
};

// A prompt in both forms.
struct LearntPrompt {
  std::span<const uint64_t> blocks;  // of text, from BlockHasher
  uint64_t bytes = 0;                // of its canonical text, hashed or not
  std::span<const uint64_t> tokens;
  std::span<const uint64_t> ends;  // canonical bytes up to the end of each token; empty: not known
};

struct HoldingsOptions {
  // Of all replicas together; 114 bytes each at worst, in two hash tables at their lowest fill.
  size_t max_blocks = size_t{1} << 20;
  size_t max_links = size_t{1} << 18;  // text blocks whose place is remembered while nobody holds them
};

struct HoldingsStats {
  size_t blocks = 0;       // in all tables
  size_t links = 0;        // token blocks whose text is known
  uint64_t orphans = 0;    // stored behind a block that is not known here
  uint64_t untracked = 0;  // stored when the tables were full
};

class Holdings {
 public:
  explicit Holdings(Index& index, const HoldingsOptions& options = {});

  // A replica's events come from now on. Only replicas of one salt (model) share what is learnt.
  void Join(MemberId member, uint64_t salt);
  // No more come: nothing is known of it exactly.
  void Leave(MemberId member);

  void Stored(MemberId member, const StoredBlocks& blocks, conf::TimePoint now);
  void Removed(MemberId member, std::span<const uint64_t> hashes);
  // Its cache is empty, or nothing that is known of it can be relied on.
  void Clear(MemberId member);
  // Its events cannot be understood: what they said is a guess from now on.
  void Doubt(MemberId member);

  // A prompt that has been computed somewhere.
  void Learn(uint64_t salt, const LearntPrompt& prompt, conf::TimePoint now);

  size_t BlocksOf(MemberId member) const;
  HoldingsStats stats() const;

 private:
  using Texts = absl::InlinedVector<uint64_t, 2>;
  static constexpr size_t kMaxTexts = 8;  // that one token block stands for

  struct Replica {
    uint64_t salt = 0;
    uint32_t block_size = 0;                       // 0: not told yet
    absl::flat_hash_map<uint64_t, uint64_t> keys;  // by the engine's hash
    absl::flat_hash_map<uint64_t, Texts> told;     // by key: what the index was told
  };

  std::vector<size_t> TokenEnds(const LearntPrompt& prompt);
  void Empty(Replica& replica);
  void Reconcile(MemberId member, Replica& replica, std::span<const uint64_t> keys,
                 std::span<const uint64_t> texts, conf::TimePoint now);
  static bool AddText(Texts& texts, uint64_t text);

  Index& index_;
  const size_t max_blocks_;
  absl::flat_hash_map<MemberId, std::unique_ptr<Replica>> replicas_;
  RecentMap<Texts> links_;          // by key
  RecentMap<uint32_t> token_ends_;  // by text block: tokens up to its end
  size_t blocks_ = 0;
  uint64_t orphans_ = 0;
  uint64_t untracked_ = 0;
};

}  // namespace router::prefix
