#include "router/prefix/block_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace router::prefix {

void BlockHasher::Begin(uint64_t salt) {
  chain_ = salt;
  bytes_ = 0;
  filled_ = 0;
  blocks_.clear();
}

void BlockHasher::Close(std::string_view block) {
  const uint64_t link[2] = {chain_, XXH3_64bits(block.data(), block.size())};
  chain_ = XXH3_64bits(link, sizeof link);
  blocks_.push_back(chain_);
}

void BlockHasher::Add(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty() && blocks_.size() < kMaxBlocks) {
    if (filled_ == 0 && bytes.size() >= kBlockBytes) {
      Close(bytes.substr(0, kBlockBytes));
      bytes.remove_prefix(kBlockBytes);
      continue;
    }
    const size_t taken = std::min(kBlockBytes - filled_, bytes.size());
    std::memcpy(partial_ + filled_, bytes.data(), taken);
    bytes.remove_prefix(taken);
    filled_ += taken;
    if (filled_ < kBlockBytes) return;
    Close({partial_, kBlockBytes});
    filled_ = 0;
  }
}

void BlockHasher::Add(std::span<const uint32_t> token_ids) {
  Add(std::string_view(reinterpret_cast<const char*>(token_ids.data()), token_ids.size_bytes()));
}

void BlockHasher::Label(uint8_t label) {
  const char text[2] = {'\0', static_cast<char>(label)};  // JSON has no NUL
  Add(std::string_view(text, sizeof text));
}

uint64_t SaltOf(std::string_view model, std::string_view adapter) {
  const uint64_t link[2] = {XXH3_64bits(model.data(), model.size()),
                            XXH3_64bits(adapter.data(), adapter.size())};
  return XXH3_64bits(link, sizeof link);
}

std::span<const uint64_t> HashPrompt(const BodyFacts& facts, std::string_view body, uint64_t salt,
                                     BlockHasher& hasher) {
  hasher.Begin(salt);
  for (size_t part = 0; part < kPromptPartCount; ++part) {
    const ByteRange range = facts.prompt_parts[part];
    if (range.empty()) continue;
    hasher.Label(static_cast<uint8_t>(part));
    hasher.Add(range.In(body));
  }
  return hasher.blocks();
}

}  // namespace router::prefix
