// Prompts that replicas have computed, on their way from the shards to whoever learns which tokens they are
// (KvEvents). A bounded queue: where it is full, prompts are dropped and counted, and learnt when they come
// again.
//
// Any thread. Owner: Shared.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "router/prefix/index.h"

namespace gateway {

struct ComputedPrompt {
  router::prefix::MemberId member{};         // where
  absl::InlinedVector<uint64_t, 16> blocks;  // of its canonical text
  uint64_t bytes = 0;                        // of that
  // JSON: the list of its token ids, which stands `ids_at` bytes into the canonical text; or else the members
  // that tell a tokenizer of it.
  std::string text;
  std::optional<uint64_t> ids_at;

  size_t Cost() const { return sizeof(*this) + blocks.size() * sizeof(uint64_t) + text.size(); }
};

class ComputedPrompts {
 public:
  static constexpr size_t kMaxBytes = size_t{8} << 20;
  static constexpr size_t kMaxPrompts = 256;

  // Whether one of so many bytes would be taken; where not, it is counted as dropped.
  bool HasRoomFor(size_t bytes);
  void Add(ComputedPrompt prompt);

  std::optional<ComputedPrompt> Take();
  uint64_t dropped() const;

  // Called, on the adding thread, for the first prompt of an empty queue. Set before any thread adds.
  std::function<void()> on_first = [] {};

 private:
  mutable std::mutex mutex_;  // of what follows
  std::deque<ComputedPrompt> queue_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace gateway
