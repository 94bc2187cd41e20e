#include "scheduler/engine/kv_cache.h"

namespace scheduler::engine {

size_t KvCache::Match(std::span<const uint64_t> hashes) const {
  size_t matched = 0;
  while (matched < hashes.size() && index_.contains(hashes[matched])) ++matched;
  return matched;
}

bool KvCache::Admit(std::span<const uint64_t> hashes, uint32_t plain, KvBlocks& holding) {
  for (uint64_t hash : hashes) {
    uint32_t block = index_.find(hash)->second;
    Pin(block);
    holding.shared.push_back(block);
  }
  if (Reserve(plain, holding)) return true;
  Release(holding);
  return false;
}

bool KvCache::Reserve(uint32_t plain, KvBlocks& holding) {
  if (plain > available()) return false;
  MakeRoom(plain);
  plain_ += plain;
  holding.plain += plain;
  return true;
}

void KvCache::Publish(std::span<const uint64_t> full, KvBlocks& holding) {
  if (!keep_prefixes_) return;
  for (size_t i = holding.shared.size(); i < full.size() && holding.plain > 0; ++i) {
    auto [entry, inserted] = index_.try_emplace(full[i], kNone);
    if (inserted) {
      if (unused_.empty()) {
        unused_.push_back(static_cast<uint32_t>(blocks_.size()));
        blocks_.emplace_back();
      }
      entry->second = unused_.back();
      unused_.pop_back();
      blocks_[entry->second] = Block{.hash = full[i], .references = 1};
      ++pinned_;
      if (changes_ != nullptr) changes_->push_back({full[i], true});
    } else {
      Pin(entry->second);
    }
    --plain_;
    --holding.plain;
    holding.shared.push_back(entry->second);
  }
}

void KvCache::Release(KvBlocks& holding) {
  plain_ -= holding.plain;
  holding.plain = 0;
  for (size_t i = holding.shared.size(); i-- > 0;) Unpin(holding.shared[i]);
  holding.shared.clear();
}

void KvCache::Pin(uint32_t block) {
  if (blocks_[block].references++ > 0) return;
  Unlink(block);
  ++pinned_;
}

void KvCache::Unpin(uint32_t block) {
  Block& b = blocks_[block];
  if (--b.references > 0) return;
  --pinned_;
  b.older = newest_;
  b.newer = kNone;
  (newest_ == kNone ? oldest_ : blocks_[newest_].newer) = block;
  newest_ = block;
}

void KvCache::Unlink(uint32_t block) {
  Block& b = blocks_[block];
  (b.older == kNone ? oldest_ : blocks_[b.older].newer) = b.newer;
  (b.newer == kNone ? newest_ : blocks_[b.newer].older) = b.older;
  b.older = b.newer = kNone;
}

void KvCache::MakeRoom(uint32_t blocks) {
  while (plain_ + cached() + blocks > capacity_) EvictOldest();
}

void KvCache::EvictOldest() {
  uint32_t block = oldest_;
  Unlink(block);
  if (changes_ != nullptr) changes_->push_back({blocks_[block].hash, false});
  index_.erase(blocks_[block].hash);
  unused_.push_back(block);
}

}  // namespace scheduler::engine
