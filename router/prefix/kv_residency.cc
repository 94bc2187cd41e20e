#include "router/prefix/kv_residency.h"

#include <xxhash.h>

#include <algorithm>

#include "router/prefix/block_hash.h"

namespace router::prefix {
namespace {

uint64_t Root(uint64_t salt, uint32_t block_size) {
  const uint64_t link[2] = {salt, block_size};
  return XXH3_64bits(link, sizeof link);
}

uint64_t Chain(uint64_t parent, std::span<const uint64_t> tokens) {
  const uint64_t link[2] = {parent, XXH3_64bits(tokens.data(), tokens.size_bytes())};
  return XXH3_64bits(link, sizeof link);
}

// The token block that ends nearest to `tokens`, of `count` blocks; `count` is at least 1.
size_t NearestBlock(size_t tokens, uint32_t block_size, size_t count) {
  return std::clamp<size_t>((tokens + block_size / 2) / block_size, 1, count) - 1;
}

}  // namespace

KvResidency::KvResidency(Index& index, const KvResidencyOptions& options)
    : index_(index),
      max_blocks_(options.max_blocks),
      links_(options.max_links / 2),
      token_ends_(options.max_links / 2) {}

void KvResidency::Join(MemberId member, uint64_t salt) {
  std::unique_ptr<Cache>& cache = caches_[member];
  cache = std::make_unique<Cache>();
  cache->salt = salt;
}

void KvResidency::Leave(MemberId member) {
  const auto found = caches_.find(member);
  if (found == caches_.end()) return;
  Empty(*found->second);
  caches_.erase(found);
  index_.SetReporting(member, false);
  index_.DistrustReports(member);
}

void KvResidency::Empty(Cache& cache) {
  blocks_ -= cache.keys.size();
  cache.keys = {};
  cache.reported = {};
}

void KvResidency::Clear(MemberId member) {
  const auto found = caches_.find(member);
  if (found == caches_.end()) return;
  Empty(*found->second);
  index_.Clear(member);
}

void KvResidency::Distrust(MemberId member) {
  const auto found = caches_.find(member);
  if (found == caches_.end() || found->second->keys.empty()) return;
  Empty(*found->second);
  index_.DistrustReports(member);
}

void KvResidency::Stored(MemberId member, const StoredBlocks& stored, conf::TimePoint now) {
  const auto found = caches_.find(member);
  if (found == caches_.end()) return;
  Cache& cache = *found->second;
  if (cache.block_size != stored.block_size) {
    if (!cache.keys.empty()) Clear(member);  // another engine
    cache.block_size = stored.block_size;
  }
  uint64_t key = Root(cache.salt, stored.block_size);
  if (stored.parent) {
    const auto parent = cache.keys.find(*stored.parent);
    if (parent == cache.keys.end()) {
      orphans_ += stored.hashes.size();
      return;
    }
    key = parent->second;
  }
  for (size_t i = 0; i < stored.hashes.size(); ++i) {
    key = Chain(key, stored.tokens.subspan(i * stored.block_size, stored.block_size));
    if (blocks_ >= max_blocks_) {
      untracked_ += stored.hashes.size() - i;
      return;
    }
    const auto [entry, added] = cache.keys.try_emplace(stored.hashes[i], key);
    if (!added) continue;
    ++blocks_;
    const auto [reported, first] = cache.reported.try_emplace(key);
    const Texts* const linked = links_.Find(key);
    if (!first || linked == nullptr) continue;
    reported->second = *linked;
    for (const uint64_t text : *linked) index_.AddReported(text, member, now);
  }
}

void KvResidency::Removed(MemberId member, std::span<const uint64_t> hashes) {
  const auto found = caches_.find(member);
  if (found == caches_.end()) return;
  Cache& cache = *found->second;
  for (const uint64_t hash : hashes) {
    const auto entry = cache.keys.find(hash);
    if (entry == cache.keys.end()) continue;
    if (const auto reported = cache.reported.find(entry->second); reported != cache.reported.end()) {
      for (const uint64_t text : reported->second) index_.Remove(text, member);
      cache.reported.erase(reported);
    }
    cache.keys.erase(entry);
    --blocks_;
  }
}

// The number of tokens up to the end of each text block.
std::vector<size_t> KvResidency::TokenEnds(const LearntPrompt& prompt) {
  std::vector<size_t> ends(prompt.blocks.size());
  size_t from_bytes = 0;
  size_t from_tokens = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const uint64_t bytes = (i + 1) * kBlockBytes;
    if (!prompt.ends.empty()) {
      from_tokens =
          static_cast<size_t>(std::upper_bound(prompt.ends.begin() + static_cast<std::ptrdiff_t>(from_tokens),
                                               prompt.ends.end(), bytes) -
                              prompt.ends.begin());
      ends[i] = from_tokens;
    } else if (const uint32_t* known = token_ends_.Find(prompt.blocks[i])) {
      ends[i] = std::clamp<size_t>(*known, from_tokens, prompt.tokens.size());
      from_bytes = bytes;
      from_tokens = ends[i];
    } else {
      const double part =
          static_cast<double>(bytes - from_bytes) / static_cast<double>(prompt.bytes - from_bytes);
      const double tokens = part * static_cast<double>(prompt.tokens.size() - from_tokens);
      ends[i] = std::min(from_tokens + static_cast<size_t>(tokens), prompt.tokens.size());
    }
  }
  for (size_t i = 0; i < ends.size(); ++i) token_ends_[prompt.blocks[i]] = static_cast<uint32_t>(ends[i]);
  return ends;
}

bool KvResidency::AddText(Texts& texts, uint64_t text) {
  if (std::find(texts.begin(), texts.end(), text) != texts.end() || texts.size() >= kMaxTexts) return false;
  texts.push_back(text);
  return true;
}

void KvResidency::Learn(uint64_t salt, const LearntPrompt& prompt, conf::TimePoint now) {
  if (prompt.blocks.empty() || prompt.bytes < prompt.blocks.size() * kBlockBytes) return;
  if (!prompt.ends.empty() && prompt.ends.size() != prompt.tokens.size()) return;
  absl::InlinedVector<uint32_t, 4> sizes;  // block sizes among the replicas of this model
  for (const auto& [member, cache] : caches_) {
    if (cache->salt == salt && cache->block_size > 0 &&
        std::find(sizes.begin(), sizes.end(), cache->block_size) == sizes.end()) {
      sizes.push_back(cache->block_size);
    }
  }
  if (sizes.empty()) return;
  const std::vector<size_t> ends = TokenEnds(prompt);
  for (const uint32_t size : sizes) {
    const size_t count = prompt.tokens.size() / size;
    if (count == 0) continue;
    std::vector<uint64_t> chain;
    chain.reserve(count);
    uint64_t key = Root(salt, size);
    for (size_t i = 0; i < count; ++i)
      chain.push_back(key = Chain(key, prompt.tokens.subspan(i * size, size)));
    std::vector<uint64_t> keys;  // by text block
    keys.reserve(ends.size());
    for (size_t i = 0; i < ends.size(); ++i) {
      keys.push_back(chain[NearestBlock(ends[i], size, count)]);
      AddText(links_[keys.back()], prompt.blocks[i]);
    }
    for (const auto& [member, cache] : caches_) {
      if (cache->salt == salt && cache->block_size == size && cache->reported.contains(chain.front()))
        Reconcile(member, *cache, keys, prompt.blocks, now);
    }
  }
}

void KvResidency::Reconcile(MemberId member, Cache& cache, std::span<const uint64_t> keys,
                            std::span<const uint64_t> texts, conf::TimePoint now) {
  bool held = true;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto reported = cache.reported.find(keys[i]);
    held = held && reported != cache.reported.end();
    if (!held) {
      index_.Remove(texts[i], member);
      // A block behind a gap is of no use; when the gap closes it is learnt again.
      if (reported != cache.reported.end()) {
        Texts& all = reported->second;
        all.erase(std::remove(all.begin(), all.end(), texts[i]), all.end());
      }
    } else if (AddText(reported->second, texts[i])) {
      index_.AddReported(texts[i], member, now);
    }
  }
}

size_t KvResidency::BlocksOf(MemberId member) const {
  const auto found = caches_.find(member);
  return found == caches_.end() ? 0 : found->second->keys.size();
}

KvResidencyStats KvResidency::stats() const {
  return {.blocks = blocks_, .links = links_.size(), .orphans = orphans_, .untracked = untracked_};
}

}  // namespace router::prefix
