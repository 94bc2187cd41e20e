// A prompt as the model sees it: its tokens are counted, hashed block by block, and, if needed, listed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scheduler/engine/model.h"
#include "tools/engine/tokenizer.h"

namespace tidegate_engine {

class Prompt {
 public:
  explicit Prompt(uint32_t block_size, bool keep_ids = false) : hasher_(block_size), keep_ids_(keep_ids) {}

  void AddText(std::string_view text) {
    ForEachToken(text, [this](std::string_view token) { AddId(TokenId(token)); });
  }
  void AddMark(Mark mark) { AddId(static_cast<uint64_t>(mark)); }
  void AddId(uint64_t id) {
    ++tokens_;
    hasher_.Add(id);
    if (keep_ids_) ids_.push_back(id);
  }

  uint32_t tokens() const { return tokens_; }
  uint64_t seed() const { return hasher_.hash(); }
  const std::vector<uint64_t>& ids() const { return ids_; }
  const scheduler::engine::BlockHasher& hasher() const { return hasher_; }

 private:
  scheduler::engine::BlockHasher hasher_;
  uint32_t tokens_ = 0;
  bool keep_ids_;
  std::vector<uint64_t> ids_;
};

}  // namespace tidegate_engine
