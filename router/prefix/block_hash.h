// A prompt as a chain of hashes, one per full block of its canonical bytes: two prompts share their first n
// hashes exactly when they share their first n blocks (XXH3, 64 bits).
//
// The canonical bytes are the prompt's parts in the order in which a chat template renders them (tools,
// system, messages; or the text of a completion, an embedding, a rerank), each behind a label, so that the
// same bytes in another part are another prompt. Each part is hashed as the client wrote it, because the next
// turn repeats those bytes. Of a longer prompt the first kMaxBlocks blocks are hashed.
//
// One per shard, kept between requests: after one long prompt it allocates no more. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "router/facts/body_facts.h"

namespace router::prefix {

inline constexpr size_t kBlockBytes = 256;
inline constexpr size_t kMaxBlocks = 8192;  // 2 MiB of prompt

class BlockHasher {
 public:
  BlockHasher() { Begin(0); }

  // Begins a prompt. Prompts with different salts (model, LoRA adapter) share no hash.
  void Begin(uint64_t salt);

  // Adds bytes of the prompt, split into calls anywhere.
  void Add(std::string_view bytes);
  void Add(std::span<const uint32_t> token_ids);

  // Begins a part. The same bytes behind another label have other hashes.
  void Label(uint8_t label);

  // The hashes of all full blocks so far; valid until the next Begin or Add.
  std::span<const uint64_t> blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }  // of the prompt so far, hashed or not

 private:
  void Close(std::string_view block);

  uint64_t chain_ = 0;
  uint64_t bytes_ = 0;
  size_t filled_ = 0;
  char partial_[kBlockBytes];
  std::vector<uint64_t> blocks_;
};

uint64_t SaltOf(std::string_view model, std::string_view adapter);

// The blocks of a scanned request's prompt.
std::span<const uint64_t> HashPrompt(const BodyFacts& facts, std::string_view body, uint64_t salt,
                                     BlockHasher& hasher);

}  // namespace router::prefix
