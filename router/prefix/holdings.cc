#include "router/prefix/holdings.h"

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

// The token block whose end is nearest to `tokens`, of `count` blocks; their number is 1 at least.
size_t NearestBlock(size_t tokens, uint32_t block_size, size_t count) {
  return std::clamp<size_t>((tokens + block_size / 2) / block_size, 1, count) - 1;
}

}  // namespace

Holdings::Holdings(Index& index, const HoldingsOptions& options)
    : index_(index),
      max_blocks_(options.max_blocks),
      links_(options.max_links / 2),
      token_ends_(options.max_links / 2) {}

void Holdings::Join(MemberId member, uint64_t salt) {
  std::unique_ptr<Replica>& replica = replicas_[member];
  replica = std::make_unique<Replica>();
  replica->salt = salt;
}

void Holdings::Leave(MemberId member) {
  const auto found = replicas_.find(member);
  if (found == replicas_.end()) return;
  Empty(*found->second);
  replicas_.erase(found);
  index_.SetHeard(member, false);
  index_.Doubt(member);
}

void Holdings::Empty(Replica& replica) {
  blocks_ -= replica.keys.size();
  replica.keys = {};
  replica.told = {};
}

void Holdings::Clear(MemberId member) {
  const auto found = replicas_.find(member);
  if (found == replicas_.end()) return;
  Empty(*found->second);
  index_.Clear(member);
}

void Holdings::Doubt(MemberId member) {
  const auto found = replicas_.find(member);
  if (found == replicas_.end() || found->second->keys.empty()) return;
  Empty(*found->second);
  index_.Doubt(member);
}

void Holdings::Stored(MemberId member, const StoredBlocks& stored, conf::TimePoint now) {
  const auto found = replicas_.find(member);
  if (found == replicas_.end()) return;
  Replica& replica = *found->second;
  if (replica.block_size != stored.block_size) {
    if (!replica.keys.empty()) Clear(member);  // another engine
    replica.block_size = stored.block_size;
  }
  uint64_t key = Root(replica.salt, stored.block_size);
  if (stored.parent) {
    const auto parent = replica.keys.find(*stored.parent);
    if (parent == replica.keys.end()) {
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
    const auto [entry, added] = replica.keys.try_emplace(stored.hashes[i], key);
    if (!added) continue;
    ++blocks_;
    const auto [told, first] = replica.told.try_emplace(key);
    const Texts* const linked = links_.Find(key);
    if (!first || linked == nullptr) continue;
    told->second = *linked;
    for (const uint64_t text : *linked) index_.Tell(text, member, now);
  }
}

void Holdings::Removed(MemberId member, std::span<const uint64_t> hashes) {
  const auto found = replicas_.find(member);
  if (found == replicas_.end()) return;
  Replica& replica = *found->second;
  for (const uint64_t hash : hashes) {
    const auto entry = replica.keys.find(hash);
    if (entry == replica.keys.end()) continue;
    if (const auto told = replica.told.find(entry->second); told != replica.told.end()) {
      for (const uint64_t text : told->second) index_.Retract(text, member);
      replica.told.erase(told);
    }
    replica.keys.erase(entry);
    --blocks_;
  }
}

// Tokens up to the end of each text block.
std::vector<size_t> Holdings::TokenEnds(const LearntPrompt& prompt) {
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

bool Holdings::AddText(Texts& texts, uint64_t text) {
  if (std::find(texts.begin(), texts.end(), text) != texts.end() || texts.size() >= kMaxTexts) return false;
  texts.push_back(text);
  return true;
}

void Holdings::Learn(uint64_t salt, const LearntPrompt& prompt, conf::TimePoint now) {
  if (prompt.blocks.empty() || prompt.bytes < prompt.blocks.size() * kBlockBytes) return;
  if (!prompt.ends.empty() && prompt.ends.size() != prompt.tokens.size()) return;
  absl::InlinedVector<uint32_t, 4> sizes;  // of blocks, among the replicas of this model
  for (const auto& [member, replica] : replicas_) {
    if (replica->salt == salt && replica->block_size > 0 &&
        std::find(sizes.begin(), sizes.end(), replica->block_size) == sizes.end()) {
      sizes.push_back(replica->block_size);
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
    for (const auto& [member, replica] : replicas_) {
      if (replica->salt == salt && replica->block_size == size && replica->told.contains(chain.front()))
        Reconcile(member, *replica, keys, prompt.blocks, now);
    }
  }
}

void Holdings::Reconcile(MemberId member, Replica& replica, std::span<const uint64_t> keys,
                         std::span<const uint64_t> texts, conf::TimePoint now) {
  bool held = true;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto told = replica.told.find(keys[i]);
    held = held && told != replica.told.end();
    if (!held) {
      index_.Retract(texts[i], member);
      // Behind a gap it is of no use; should that close, it is learnt again.
      if (told != replica.told.end()) {
        Texts& all = told->second;
        all.erase(std::remove(all.begin(), all.end(), texts[i]), all.end());
      }
    } else if (AddText(told->second, texts[i])) {
      index_.Tell(texts[i], member, now);
    }
  }
}

size_t Holdings::BlocksOf(MemberId member) const {
  const auto found = replicas_.find(member);
  return found == replicas_.end() ? 0 : found->second->keys.size();
}

HoldingsStats Holdings::stats() const {
  return {.blocks = blocks_, .links = links_.size(), .orphans = orphans_, .untracked = untracked_};
}

}  // namespace router::prefix
