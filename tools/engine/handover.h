// The transfer of computed prompts between engines, over loopback HTTP in place of a fast network.
//
// Like vLLM's NIXL connector: a prefill engine answers a request for one token with kv_transfer_params that
// name itself and the blocks, and holds the blocks until a decode engine with these parameters takes them
// (POST /engine/handover), once, or until they expire. Like SGLang: both engines get an address and a room;
// the decode engine asks for the room at that address, and the two wait for each other, up to a time-out.
//
// One thread. Bounded: beyond kMaxHeld the oldest prompt is dropped.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "conf/time.h"
#include "gateway/net/task.h"
#include "tools/engine/fields.h"

namespace tidegate_engine {

enum class Role : uint8_t { kBoth, kPrefill, kDecode };
enum class HandoverKind : uint8_t { kNixl, kBootstrap };

struct HandoverOptions {
  Role role = Role::kBoth;
  HandoverKind kind = HandoverKind::kNixl;
  double transfer_rate = 1e6;                           // tokens a second
  conf::Duration hold_for = std::chrono::seconds(480);  // until another engine takes a prompt
  conf::Duration wait_for = std::chrono::seconds(30);   // until the other engine comes to the room
};

// The transfer parameters of a request's body.
struct HandoverRequest {
  bool for_other = false;   // do_remote_decode
  bool from_other = false;  // do_remote_prefill
  std::string engine;       // remote_engine_id
  std::string host;         // of the engine that computed, or computes
  uint32_t port = 0;
  uint64_t first_block = 0;  // of remote_block_ids
  bool blocks = false;       // remote_block_ids is not empty
  std::optional<uint64_t> room;
};
HandoverRequest ReadHandover(const Fields& fields);

// The prompts that a prefill engine holds for other engines.
class Held {
 public:
  static constexpr size_t kMaxHeld = 4096;

  struct Prompt {
    uint32_t tokens = 0;
    conf::TimePoint until;
  };

  // The id of the prompt's first block; the others follow.
  uint64_t Hold(uint32_t tokens, uint32_t blocks, conf::TimePoint until);
  // None when it was taken or dropped, or never existed.
  std::optional<uint32_t> Take(uint64_t first_block, conf::TimePoint now);
  size_t size() const { return held_.size(); }
  uint64_t expired() const { return expired_; }

 private:
  std::map<uint64_t, Prompt> held_;  // by first block: the oldest first
  uint64_t next_block_ = 1;
  uint64_t expired_ = 0;
};

// The meeting point of a prompt and the engine that waits for it.
struct Room {
  std::optional<uint32_t> tokens;  // computed
  bool taken = false;
  gateway::net::Event computed;  // or given up
  gateway::net::Event left;      // taken, or given up
};

struct HandoverCounts {
  uint64_t offered = 0;     // prompts computed for others
  uint64_t taken = 0;       // of these
  uint64_t received = 0;    // prompts that others have computed
  uint64_t recomputed = 0;  // prompts that could not be had, and were computed here
};

std::string_view RoleName(Role role);

}  // namespace tidegate_engine
