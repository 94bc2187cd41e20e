// A prompt as a chain of hashes, one for each full block of its canonical bytes: two prompts have the first n
// hashes in common exactly when they have the first n blocks in common (XXH3, 64 bits).
//
// The canonical bytes are the prompt's parts in the order in which an engine's chat template puts them
// (tools, system, messages; or the text of a completion, an embedding, a rerank), each behind its label, so
// that the same bytes in another part are another prompt. A part is taken as the client wrote it: a next turn
// repeats them. What is longer than kMaxBlocks blocks is hashed that far.
//
// One per shard, kept between requests: once it has seen a long prompt it allocates no more. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "router/facts.h"

namespace router::prefix {

inline constexpr size_t kBlockBytes = 256;
inline constexpr size_t kMaxBlocks = 8192;  // 2 MiB of prompt

class BlockHasher {
 public:
  BlockHasher() { Begin(0); }

  // Begins a prompt. Prompts of another salt (model, LoRA adapter) have no hash in common.
  void Begin(uint64_t salt);

  // More of the prompt; how it is cut into calls makes no difference.
  void Add(std::string_view bytes);
  void Add(std::span<const uint32_t> token_ids);

  // Begins a part: what follows it is not what it would be behind another label.
  void Label(uint8_t label);

  // Of every full block so far; valid until the next Begin or Add.
  std::span<const uint64_t> blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }  // hashed or not

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
