// ComputedPrompts: a queue of prompts that replicas have computed, from the shards to KvEvents, which learns their
// tokens. The queue is bounded: a prompt that does not fit is dropped and counted, and learned when it comes again.
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
  router::prefix::MemberId member{};         // the replica that computed it
  absl::InlinedVector<uint64_t, 16> blocks;  // hashes of its canonical text
  uint64_t bytes = 0;                        // size of that text
  // JSON. With `ids_at`: the list of its token ids, which begins that many bytes into the canonical text. Otherwise:
  // the members of a request to the tokenizer.
  std::string text;
  std::optional<uint64_t> ids_at;

  size_t Cost() const { return sizeof(*this) + blocks.size() * sizeof(uint64_t) + text.size(); }
};

class ComputedPrompts {
 public:
  static constexpr size_t kMaxBytes = size_t{8} << 20;
  static constexpr size_t kMaxPrompts = 256;

  // Whether a prompt of this size fits. If not, it is counted as dropped.
  bool HasRoomFor(size_t bytes);
  void Add(ComputedPrompt prompt);

  std::optional<ComputedPrompt> Take();
  uint64_t dropped() const;

  // Called on the adding thread for the first prompt in an empty queue. Set before any thread adds.
  std::function<void()> on_first = [] {};

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::deque<ComputedPrompt> queue_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace gateway
