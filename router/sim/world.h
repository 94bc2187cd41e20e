// A pool of engines in virtual time behind the production router: its policies, its signals, its prefix
// index, its breakers and health. What a gateway's shell does between them is played here: requests arrive,
// are sent where Pick says, their tokens come back; telemetry is scraped and may be old; replicas die or
// hang.
//
// Pure: the same options and requests give the same report. Prompts are given as hashes of kBlockTokens
// tokens, which serve the engine and the index alike, as if every token were four bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "conf/time.h"
#include "router/admission/queue.h"
#include "router/admission/room_spec.h"
#include "router/route_table.h"
#include "router/sim/report.h"
#include "scheduler/engine/model.h"

namespace router::sim {

inline constexpr uint32_t kBlockTokens = 64;

struct Request {
  conf::Duration at{};  // since the begin
  uint32_t prompt_tokens = 1;
  uint32_t output_tokens = 1;
  uint32_t adapter = 0;          // LoRA, from 1; 0: none
  std::vector<uint64_t> blocks;  // chained hashes of the prompt's full blocks
};

// `profile` with blocks of kBlockTokens and as much memory; steps fused for speed.
scheduler::engine::Profile Simulated(scheduler::engine::Profile profile);

enum class FaultKind : uint8_t {
  kDies,   // connections break and are refused from then on; probes fail
  kHangs,  // takes requests and answers probes, but no token comes any more
};

struct Fault {
  conf::Duration at{};
  uint32_t replica = 0;
  FaultKind kind = FaultKind::kDies;
};

// Requests that find no room wait, as the gateway has it by default: all of one tenant, in one band.
struct WaitOptions {
  AdmissionSpec admission{.max_requests = 10'000, .max_bytes = uint64_t{256} << 20};
  RoomSpec room;
  conf::Duration max_wait = std::chrono::minutes(5);
  double shorter_first = 4;  // times as long as its prompt and its adapter take, one lets others pass
};

struct Options {
  PolicyKind policy = PolicyKind::kCost;
  CostWeights cost;
  std::vector<scheduler::engine::Profile> replicas;
  uint32_t adapters =
      0;  // LoRA adapters that every replica knows; how many it holds at a time is its profile's
  conf::Duration telemetry_every = std::chrono::milliseconds(100);
  conf::Duration telemetry_age{0};  // 0: read at each choice
  std::vector<Fault> faults;
  conf::Duration hung_after = std::chrono::seconds(30);  // of silence: requests go elsewhere, or break
  double whole = 0;  // share of the requests whose answers come whole: their first tokens are not seen
  conf::Duration slo = std::chrono::seconds(2);  // for the first token
  uint32_t max_retries = 2;
  // So many replicas, the first ones, compute long prompts for the others. 0: everybody does everything.
  uint32_t prefills = 0;
  HandoverSpec handover;
  double transfer_rate = 200'000;    // tokens a second from one replica to another
  bool kv_events = false;            // engines tell what their caches hold, instead of the index guessing
  std::optional<WaitOptions> queue;  // nothing: each request is sent the moment it arrives
  uint64_t seed = 1;
};

// `keep_going` is told now and then how many requests have been sent; false ends the simulation, whose report
// then is of no use.
Report Simulate(const Options& options, std::span<const Request> requests,
                const std::function<bool(size_t sent)>& keep_going = {});

}  // namespace router::sim
