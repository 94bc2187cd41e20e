// A simulated inference engine with continuous batching. The caller moves its time.
//
// The engine works in steps. Each step computes at most `max_batched_tokens` tokens: first one token for each
// decoding sequence and a chunk for each sequence whose prompt is not complete, in order of admission; then
// it admits new sequences from the head of the waiting queue (first come, first served), as far as tokens,
// `max_running` and KV blocks allow. A sequence begins after the part of its prompt that is in the prefix
// cache. When a running sequence needs a block and none is free, the youngest running one is preempted: it
// loses its blocks, returns to the head of the queue and computes everything again. The step takes
//
//   step_base + step_per_sequence * decoding + per_prefill_token * prompt tokens
//             + per_context_token * context read
//
// and at its end every sequence with all tokens computed has one more token. This is the schedule of vLLM v1.
//
// A sequence may need a LoRA adapter. While other adapters use all slots, the sequence is skipped and does
// not block the queue; loading an adapter lengthens the step in which its first sequence is admitted, for all
// sequences of that step.
//
// Pure: no clock, no randomness, no I/O. One owner, not thread-safe. Times must not go back. Cost: O(batch) a
// step. With `max_fused_steps` above 1, runs of steps that only decode are computed at once (for the
// simulator), with the same times; under KV pressure a prefix may then be evicted some steps early.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "scheduler/engine/adapters.h"
#include "scheduler/engine/kv_cache.h"

namespace scheduler::engine {

using conf::Duration;
using conf::TimePoint;
using Nanos = std::chrono::duration<double, std::nano>;

struct Profile {
  std::string name;
  Nanos step_base{0};
  Nanos step_per_sequence{0};  // for each sequence that decodes
  Nanos per_prefill_token{0};  // 1 / prefill rate
  Nanos per_context_token{0};  // attention: per token of context of a decoding sequence
  uint32_t max_batched_tokens = 8192;
  uint32_t max_running = 256;
  uint32_t max_waiting = 0;  // 0: no bound
  uint32_t max_model_len = 131072;
  uint32_t block_size = 16;  // tokens
  uint32_t kv_blocks = 8192;
  bool prefix_caching = true;
  uint32_t max_fused_steps = 1;
  Duration load_time{0};
  Duration move_time{0};    // of the weights between devices and host memory: sleep and wake
  Duration reload_time{0};  // of weights that a sleep discarded
  uint32_t max_loras = 0;   // adapters that are loaded at a time; 0: no bound
  Nanos lora_load{0};       // time of loading one
  uint32_t devices = 1;     // of one replica
};

// All durations divided by `factor`, which must be above 0.
Profile SpeedUp(Profile profile, double factor);

struct Request {
  uint64_t id = 0;
  uint32_t prompt_tokens = 1;
  uint32_t output_tokens = 1;  // 0: prefill only (embeddings, scores)
  uint32_t adapter = 0;        // LoRA, from 1; 0: none. Its blocks have hashes of their own
  uint32_t given_tokens = 0;   // of the prompt, computed by another engine
  // Chained hashes of the full blocks of the prompt and, where known, of the output after it, so that the
  // next turn of the conversation finds both. May be shorter, or empty: blocks without a hash are not cached.
  std::vector<uint64_t> blocks;
};

// Chained 64-bit hashes of token blocks: each covers its block and all blocks before it.
class BlockHasher {
 public:
  explicit BlockHasher(uint32_t block_size, uint64_t salt = 0) : block_size_(block_size), hash_(salt) {}

  void Add(uint64_t token);
  const std::vector<uint64_t>& blocks() const { return blocks_; }
  std::vector<uint64_t> Take() { return std::move(blocks_); }
  uint64_t hash() const { return hash_; }  // of everything added so far, a partial block included

 private:
  uint32_t block_size_;
  uint32_t filled_ = 0;
  uint64_t hash_;
  std::vector<uint64_t> blocks_;
};

enum class Admission : uint8_t {
  kAccepted,
  kQueueFull,  // max_waiting requests wait already
  kTooLong,    // prompt and output exceed max_model_len or the whole KV cache, or there is no prompt
  kDuplicate,  // the id is in use
};

enum class Phase : uint8_t { kWaiting, kPrefill, kDecode, kUnknown };

// The result of a step for one sequence.
struct Event {
  uint64_t id = 0;
  uint32_t tokens = 0;  // new ones; above 1 only in fused steps; 0 only for a finished prefill-only request
  uint32_t generated = 0;      // all so far
  uint32_t cached_tokens = 0;  // of the prompt, found in the prefix cache or given
  bool first = false;          // among `tokens` is the first
  bool finished = false;       // all output_tokens are there; the id is free again
};

struct Counters {
  uint64_t finished = 0;
  uint64_t rejected = 0;
  uint64_t preemptions = 0;
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;     // of requests that reached their first token
  uint64_t generated_tokens = 0;  // cancelled requests included
  uint64_t prefix_queries = 0;    // prompt tokens looked up
  uint64_t prefix_hits = 0;       // prompt tokens found
  uint64_t cancelled_waiting = 0;
  uint64_t cancelled_prefill = 0;
  uint64_t cancelled_decode = 0;
  uint64_t cancelled_tokens = 0;  // of requests that were cancelled later

  uint64_t cancelled() const { return cancelled_waiting + cancelled_prefill + cancelled_decode; }
};

class Model {
 public:
  // Loading begins at `start`; requests may be submitted at once and wait for its end.
  Model(Profile profile, TimePoint start);

  Admission Submit(Request request, TimePoint now);

  // The phase of the request; kUnknown when there is none with this id (finished, or never seen).
  // Its blocks are free at once; the duration of the running step does not change.
  Phase Cancel(uint64_t id, TimePoint now);

  // When Step is due next; TimePoint::max() when there is nothing to do.
  TimePoint NextStep() const;

  // Ends the running step if it is due at `now`, and begins the next one. Appends to `events`, in order of
  // admission.
  void Step(TimePoint now, std::vector<Event>& events);

  bool Ready(TimePoint now) const { return now >= ready_at_; }
  TimePoint ready_at() const { return ready_at_; }
  uint32_t running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  double kv_use() const { return static_cast<double>(kv_.used()) / static_cast<double>(kv_.capacity()); }
  const Counters& counters() const { return counters_; }
  const Profile& profile() const { return profile_; }
  const KvCache& kv() const { return kv_; }
  const AdapterCache& adapters() const { return adapters_; }
  std::vector<uint32_t> WaitingAdapters() const;  // the adapters of waiting sequences, in their order
  // Forgets the prefix cache. Only while it has no request.
  void DropPrefixes();
  void RecordKvChangesTo(std::vector<KvChange>* changes) { kv_.RecordTo(changes); }

 private:
  struct Sequence {
    Request request;
    KvBlocks holding;
    uint32_t generated = 0;
    uint32_t computed = 0;   // tokens of prompt and output whose KV is computed
    uint32_t scheduled = 0;  // tokens in the step under way
    uint32_t cached_tokens = 0;
    bool looked_up = false;

    uint32_t Tokens() const { return request.prompt_tokens + generated; }
    uint32_t Uncomputed() const { return Tokens() - computed; }
    bool Decoding() const { return generated > 0 && Uncomputed() == 1; }
  };
  struct Flight {  // the step under way
    bool active = false;
    TimePoint start{};
    TimePoint end{};
    uint32_t fused = 1;  // decode iterations
    Nanos first{0};      // duration of the first iteration
    Nanos growth{0};     // by which each iteration is longer than the one before
  };

  void Begin(TimePoint now);
  uint32_t ScheduleRunning(uint32_t budget, bool& preempted);
  uint32_t ScheduleWaiting(uint32_t budget);
  bool AdmitToKv(Sequence& sequence, uint32_t budget);
  void StopUsing(const Sequence& sequence);
  void PreemptYoungest();
  uint32_t Fusable() const;
  void Complete(std::vector<Event>& events);
  void CutShort(TimePoint now);
  uint32_t IterationsBy(TimePoint now) const;
  bool ReserveFor(Sequence& sequence, uint32_t tokens);
  std::span<const uint64_t> FullBlocks(const Sequence& sequence) const;

  Profile profile_;
  KvCache kv_;
  AdapterCache adapters_;
  uint32_t adapter_loads_ = 0;  // in the step under way
  TimePoint ready_at_;
  TimePoint wake_;
  Flight flight_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  // in order of admission
  std::deque<Sequence*> waiting_;
  Counters counters_;
};

}  // namespace scheduler::engine
