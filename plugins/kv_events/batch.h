// A batch of KV cache events as vLLM publishes them (vllm/distributed/kv_events.py), in msgpack, in both
// forms:
//
//   [ts, [["BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium, lora_name,
//          extra_keys, group_idx], ["BlockRemoved", block_hashes, medium, group_idx], ["AllBlocksCleared"]],
//    data_parallel_rank]
//   {"ts": …, "events": [{"type": "BlockStored", "block_hashes": …, …}], "data_parallel_rank": …}
//
// each level in one form or the other. Values at the end may be missing; unknown ones are skipped. Hashes are numbers
// or bytes; bytes are hashed to a number by XXH3.
//
// Pure and total: any bytes give a batch or an error. Memory is a small multiple of the bytes, whatever lengths they
// claim, and nesting is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plugins::kv_events {

struct Event {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };

  Kind kind = Kind::kCleared;
  std::vector<uint64_t> hashes;
  std::optional<uint64_t> parent;  // of the first stored block; none: it begins a prompt
  std::vector<uint64_t> tokens;    // stored: block_size for each hash
  uint32_t block_size = 0;
  // The tokens alone identify its blocks (no adapter, image or salt), and the blocks are in the device's memory and of
  // the first group of layers, which stands for the other groups.
  bool plain = true;
};

struct Batch {
  double at = 0;  // Unix time
  std::vector<Event> events;
  uint32_t unknown = 0;  // events of other kinds, passed over
  int64_t rank = 0;      // data parallel
};

// The batch, or what is wrong with it.
std::variant<Batch, std::string> Decode(std::string_view msgpack);

}  // namespace plugins::kv_events
