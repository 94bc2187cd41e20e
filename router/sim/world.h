// A pool of engine models in virtual time behind the production router: its policies, signals, prefix index,
// breakers and health. The simulation plays the gateway's shell: requests arrive, go where Pick says, and
// their tokens come back; telemetry is scraped and may be old; replicas die or hang.
//
// Pure: the same options and requests give the same report. Prompts are hashes of blocks of kBlockTokens
// tokens, used by engine and index alike, as if every token were four bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "conf/time.h"
#include "router/admission/queue.h"
#include "router/routes/headroom_limits.h"
#include "router/routes/route_table.h"
#include "router/sim/report.h"
#include "scheduler/engine/model.h"

namespace router::sim {

inline constexpr uint32_t kBlockTokens = 64;

struct Request {
  conf::Duration at{};  // since the start
  uint32_t prompt_tokens = 1;
  uint32_t output_tokens = 1;
  uint32_t adapter = 0;          // LoRA, from 1; 0: none
  std::vector<uint64_t> blocks;  // chained hashes of the prompt's full blocks
};

// `profile` with blocks of kBlockTokens, the same memory, and fused steps for speed.
scheduler::engine::Profile Simulated(scheduler::engine::Profile profile);

enum class FaultKind : uint8_t {
  kDies,   // connections break, new ones are refused, probes fail
  kHangs,  // it takes requests and answers probes, but sends no tokens
};

struct Fault {
  conf::Duration at{};
  uint32_t replica = 0;
  FaultKind kind = FaultKind::kDies;
};

// Requests that find no headroom wait, as by the gateway's defaults: one tenant, one band.
struct WaitOptions {
  AdmissionSpec admission{.max_requests = 10'000, .max_bytes = uint64_t{256} << 20};
  HeadroomLimits headroom{};
  conf::Duration max_wait = std::chrono::minutes(5);
  double shorter_first = 4;  // a request lets others pass for this many times its prefill and adapter load
};

// Requests that nobody waits for, like the lines of a batch: one after the other, until the last request of the
// others has come.
struct SpareLoad {
  std::vector<Request> lines;
  uint32_t in_flight = 64;  // at replicas or in the queue, at most
  bool only_spare = true;   // false: each goes where a request would, behind the others
};

struct Options {
  PolicyKind policy = PolicyKind::kCost;
  CostWeights cost;
  std::vector<scheduler::engine::Profile> replicas;
  // LoRA adapters that every replica knows; its profile says how many it holds at a time.
  uint32_t adapters = 0;
  conf::Duration telemetry_every = std::chrono::milliseconds(100);
  conf::Duration telemetry_age{0};  // 0: read at each pick
  std::vector<Fault> faults;
  conf::Duration hung_after = std::chrono::seconds(30);  // of silence: then requests leave, or break
  double whole = 0;  // share of requests whose answers are not streamed: their first tokens are not seen
  conf::Duration slo = std::chrono::seconds(2);  // for the first token
  uint32_t max_retries = 2;
  // This many replicas, the first ones, compute long prompts for the others. 0: every replica serves whole
  // requests.
  uint32_t prefills = 0;
  PrefillTransferSpec prefill_transfer;
  double transfer_rate = 200'000;    // tokens per second from one replica to another
  bool kv_events = false;            // engines report what their caches hold, instead of the index guessing
  std::optional<WaitOptions> queue;  // none: each request is sent when it arrives
  std::optional<SpareLoad> spare;    // needs a queue
  conf::Duration sample_every{};     // of Report::first_tokens; zero: none
  uint64_t seed = 1;
};

// `keep_going` is called now and then with the number of requests sent; when it returns false the simulation
// ends with a useless report.
Report Simulate(const Options& options, std::span<const Request> requests,
                const std::function<bool(size_t sent)>& keep_going = {});

}  // namespace router::sim
