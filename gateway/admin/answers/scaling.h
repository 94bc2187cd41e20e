// Answers of the admin API about the replicas that Tidegate runs, and of the demand of each model.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct ReplicaMember {
  static constexpr std::string_view kSchema = "ReplicaMember";

  uint64_t rank = 0;
  std::string run = {};
  std::string node = {};
  std::optional<std::string> device_kind = {};
  std::vector<std::string> devices = {};
  std::string state = {};
  std::optional<std::string> reason = {};
};

template <class O>
constexpr void Bind(O& o, ReplicaMember& member) {
  o.Required("rank", member.rank);
  o.Required("run", member.run);
  o.Required("node", member.node);
  o.Required("device_kind", member.device_kind);
  o.Required("devices", member.devices);
  o.Required("state", member.state);
  o.Required("reason", member.reason);
}

// Where the time of a cold start went.
struct ReplicaStart {
  static constexpr std::string_view kSchema = "ReplicaStart";

  int64_t placed_ms = 0;
  int64_t fetched_ms = 0;
  int64_t process_ms = 0;
  int64_t loaded_ms = 0;
  int64_t compiled_ms = 0;
  int64_t first_token_ms = 0;
  uint64_t weights_bytes = 0;                // that were fetched for it
  uint64_t weights_bytes_of_neighbours = 0;  // of these, from other nodes' stores
};

template <class O>
constexpr void Bind(O& o, ReplicaStart& start) {
  o.Required("placed_ms", start.placed_ms);
  o.Required("fetched_ms", start.fetched_ms);
  o.Required("process_ms", start.process_ms);
  o.Required("loaded_ms", start.loaded_ms);
  o.Required("compiled_ms", start.compiled_ms);
  o.Required("first_token_ms", start.first_token_ms);
  o.Required("weights_bytes", start.weights_bytes);
  o.Required("weights_bytes_of_neighbours", start.weights_bytes_of_neighbours);
}

// Weights on their way to a replica's nodes.
struct ReplicaWeights {
  static constexpr std::string_view kSchema = "ReplicaWeights";

  uint64_t bytes = 0;
  std::optional<uint64_t> total_bytes = {};
};

template <class O>
constexpr void Bind(O& o, ReplicaWeights& weights) {
  o.Required("bytes", weights.bytes);
  o.Required("total_bytes", weights.total_bytes);
}

struct Replica {
  static constexpr std::string_view kSchema = "Replica";

  std::string id = {};
  std::string model = {};
  std::optional<std::string> version = {};  // null: it has no name
  std::string_view state = {};
  std::optional<std::string> node = {};  // of the leader, as the next two
  std::optional<std::string> device_kind = {};
  std::vector<std::string> devices = {};
  std::vector<ReplicaMember> members = {};
  std::optional<std::string> address = {};
  int64_t age_ms = 0;
  int64_t in_state_ms = 0;
  bool adopted = false;
  int64_t outstanding_requests = 0;
  std::string reason = {};
  std::optional<ReplicaWeights> weights = {};  // while they are on their way
  std::optional<ReplicaStart> start = {};      // once it is ready; null: another process saw it
  std::optional<std::string> replaces = {};    // the replica whose place it takes
  std::optional<Time> moved = {};              // when it began to move, or to take another's place
  std::optional<std::string> gain = {};        // of that move
};

template <class O>
constexpr void Bind(O& o, Replica& replica) {
  o.Required("id", replica.id);
  o.Required("model", replica.model);
  o.Required("version", replica.version);
  o.Required("state", replica.state);
  o.Required("node", replica.node);
  o.Required("device_kind", replica.device_kind);
  o.Required("devices", replica.devices);
  o.Required("members", replica.members);
  o.Required("address", replica.address);
  o.Required("age_ms", replica.age_ms);
  o.Required("in_state_ms", replica.in_state_ms);
  o.Required("adopted", replica.adopted);
  o.Required("outstanding_requests", replica.outstanding_requests);
  o.Required("reason", replica.reason);
  o.Required("weights", replica.weights);
  o.Required("start", replica.start);
  o.Required("replaces", replica.replaces);
  o.Required("moved", replica.moved);
  o.Required("gain", replica.gain);
}

struct ColdStart {
  static constexpr std::string_view kSchema = "ColdStart";

  std::optional<std::string> device_kind = {};
  uint64_t starts = 0;
  int64_t p50_ms = 0;
  int64_t p90_ms = 0;
};

template <class O>
constexpr void Bind(O& o, ColdStart& start) {
  o.Required("device_kind", start.device_kind);
  o.Required("starts", start.starts);
  o.Required("p50_ms", start.p50_ms);
  o.Required("p90_ms", start.p90_ms);
}

struct StartPhaseTimes {
  static constexpr std::string_view kSchema = "StartPhaseTimes";

  std::optional<std::string> device_kind = {};
  std::string_view phase = {};
  int64_t p50_ms = 0;
  int64_t p90_ms = 0;
};

template <class O>
constexpr void Bind(O& o, StartPhaseTimes& of) {
  o.Required("device_kind", of.device_kind);
  o.Required("phase", of.phase);
  o.Required("p50_ms", of.p50_ms);
  o.Required("p90_ms", of.p90_ms);
}

struct Prefetch {
  static constexpr std::string_view kSchema = "Prefetch";

  std::string run = {};
  std::string node = {};
  int64_t age_ms = 0;
  std::optional<std::string> reason = {};
};

template <class O>
constexpr void Bind(O& o, Prefetch& prefetch) {
  o.Required("run", prefetch.run);
  o.Required("node", prefetch.node);
  o.Required("age_ms", prefetch.age_ms);
  o.Required("reason", prefetch.reason);
}

struct ScalingOfClass {
  static constexpr std::string_view kSchema = "ScalingOfClass";

  std::string name = {};
  uint64_t requests = 0;
  uint64_t refused_requests = 0;
  uint64_t first_tokens_in_time = 0;
  uint64_t first_tokens_late = 0;
  uint64_t first_tokens_hopeless = 0;
  uint64_t outstanding_requests = 0;
  uint64_t held_requests = 0;
  uint64_t held_prompt_tokens = 0;
  int64_t oldest_ms = 0;
};

template <class O>
constexpr void Bind(O& o, ScalingOfClass& of) {
  o.Required("class", of.name);
  o.Required("requests", of.requests);
  o.Required("refused_requests", of.refused_requests);
  o.Required("first_tokens_in_time", of.first_tokens_in_time);
  o.Required("first_tokens_late", of.first_tokens_late);
  o.Required("first_tokens_hopeless", of.first_tokens_hopeless);
  o.Required("outstanding_requests", of.outstanding_requests);
  o.Required("held_requests", of.held_requests);
  o.Required("held_prompt_tokens", of.held_prompt_tokens);
  o.Required("oldest_ms", of.oldest_ms);
}

struct Scaling {
  static constexpr std::string_view kSchema = "Scaling";

  std::string model = {};
  std::string policy = {};
  std::string law = {};
  uint64_t min = 0;
  uint64_t max = 0;
  double demand = 0;  // replicas, as the law sees it
  uint64_t wanted = 0;
  std::string reason = {};
  double headroom = 0;
  std::string capacity_by = {};
  std::optional<int64_t> lead_time_ms = {};  // that the next replica would take; null: no start was measured
  double outstanding_requests = 0;
  double held_requests = 0;
  uint64_t waiting = 0;  // replicas in each state
  uint64_t launching = 0;
  uint64_t warming = 0;
  uint64_t ready = 0;
  uint64_t draining = 0;
  uint64_t stopping = 0;
  uint64_t asleep = 0;
  uint64_t waking = 0;
  uint64_t failed_starts = 0;
  std::optional<Time> next_start = {};
  std::optional<std::string> trouble = {};
  std::vector<ColdStart> cold_starts = {};
  std::vector<ColdStart> wakes = {};  // of replicas that slept
  std::vector<StartPhaseTimes> start_phases = {};
  std::vector<Prefetch> prefetches = {};  // under way
  std::vector<ScalingOfClass> classes = {};
};

template <class O>
constexpr void Bind(O& o, Scaling& scaling) {
  o.Required("model", scaling.model);
  o.Required("policy", scaling.policy);
  o.Required("law", scaling.law);
  o.Required("min", scaling.min);
  o.Required("max", scaling.max);
  o.Required("demand", scaling.demand);
  o.Required("wanted", scaling.wanted);
  o.Required("reason", scaling.reason);
  o.Required("headroom", scaling.headroom);
  o.Required("capacity_by", scaling.capacity_by);
  o.Required("lead_time_ms", scaling.lead_time_ms);
  o.Required("outstanding_requests", scaling.outstanding_requests);
  o.Required("held_requests", scaling.held_requests);
  o.Required("waiting", scaling.waiting);
  o.Required("launching", scaling.launching);
  o.Required("warming", scaling.warming);
  o.Required("ready", scaling.ready);
  o.Required("draining", scaling.draining);
  o.Required("stopping", scaling.stopping);
  o.Required("asleep", scaling.asleep);
  o.Required("waking", scaling.waking);
  o.Required("failed_starts", scaling.failed_starts);
  o.Required("next_start", scaling.next_start);
  o.Required("trouble", scaling.trouble);
  o.Required("cold_starts", scaling.cold_starts);
  o.Required("wakes", scaling.wakes);
  o.Required("start_phases", scaling.start_phases);
  o.Required("prefetches", scaling.prefetches);
  o.Required("classes", scaling.classes);
}

struct ScalingStep {
  static constexpr std::string_view kSchema = "ScalingStep";

  Time at = {};
  double seconds = 0;
  double work = 0;
  double arrivals_per_second = 0;
  double outstanding_requests = 0;
  double held_requests = 0;
  double occupied = 0;
  double ready = 0;
  double there = 0;
  double demand = 0;
};

template <class O>
constexpr void Bind(O& o, ScalingStep& step) {
  o.Required("at", step.at);
  o.Required("seconds", step.seconds);
  o.Required("work", step.work);
  o.Required("arrivals_per_second", step.arrivals_per_second);
  o.Required("outstanding_requests", step.outstanding_requests);
  o.Required("held_requests", step.held_requests);
  o.Required("occupied", step.occupied);
  o.Required("ready", step.ready);
  o.Required("there", step.there);
  o.Required("demand", step.demand);
}

struct ScalingHistory {
  static constexpr std::string_view kSchema = "ScalingHistory";

  std::string model = {};
  std::string file = {};
  conf::RawJson policy = {};
  uint64_t members = 0;
  double devices_per_replica = 0;
  std::optional<int64_t> cold_start_p90_ms = {};
  std::vector<ScalingStep> steps = {};
};

template <class O>
constexpr void Bind(O& o, ScalingHistory& history) {
  o.Required("model", history.model);
  o.Required("file", history.file);
  o.Required("policy", history.policy);
  o.Required("members", history.members);
  o.Required("devices_per_replica", history.devices_per_replica);
  o.Required("cold_start_p90_ms", history.cold_start_p90_ms);
  o.Required("steps", history.steps);
}

}  // namespace gateway::admin::answers
