#include "tools/engine/kv_log.h"

#include <utility>

namespace tidegate_engine {

void KvLog::Begin(uint64_t sequence, const std::vector<uint64_t>& blocks, std::span<const uint64_t> tokens) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    Content& content = contents_[blocks[i]];
    ++content.sequences;
    if (!content.tokens.empty()) continue;
    if (i > 0) content.parent = blocks[i - 1];
    const std::span<const uint64_t> own = tokens.subspan(i * block_size_, block_size_);
    content.tokens.assign(own.begin(), own.end());
  }
  sequences_[sequence] = blocks;
}

void KvLog::End(uint64_t sequence) {
  Absorb();
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return;
  for (const uint64_t block : found->second) {
    --contents_[block].sequences;
    Drop(block);
  }
  sequences_.erase(found);
}

std::vector<KvEvent> KvLog::Take() {
  Absorb();
  if (!events_.empty()) ++batches_;
  return std::exchange(events_, {});
}

void KvLog::Absorb() {
  for (const auto& [hash, stored] : changes_) {
    Content& content = contents_[hash];
    content.cached = stored;
    const bool goes_on = !events_.empty() && events_.back().stored == stored &&
                         (!stored || content.parent == events_.back().hashes.back());
    if (!goes_on) events_.push_back({.stored = stored, .hashes = {}, .parent = content.parent, .tokens = {}});
    events_.back().hashes.push_back(hash);
    if (stored) {
      events_.back().tokens.insert(events_.back().tokens.end(), content.tokens.begin(), content.tokens.end());
    } else {
      Drop(hash);
    }
  }
  changes_.clear();
}

void KvLog::Drop(uint64_t block) {
  const auto found = contents_.find(block);
  if (found->second.sequences == 0 && !found->second.cached) contents_.erase(found);
}

}  // namespace tidegate_engine
