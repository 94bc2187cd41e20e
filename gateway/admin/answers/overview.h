// Answers of the admin API about the whole: models, devices by holder, jobs, and problems.
#pragma once

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/admin/answers/model_order.h"
#include "gateway/admin/answers/process.h"

namespace gateway::admin::answers {

struct ModelNow {
  static constexpr std::string_view kSchema = "ModelNow";

  std::string model = {};
  bool scaled = false;  // a policy says how many replicas there are
  uint64_t min = 0;
  uint64_t max = 0;
  uint64_t wanted = 0;  // replicas, as the next four
  uint64_t ready = 0;
  uint64_t starting = 0;
  uint64_t draining = 0;
  uint64_t sleeping = 0;
  bool asleep = false;    // it has no replica that is awake, and needs none
  uint64_t capacity = 0;  // that take requests
  double demand = 0;      // in replicas
  uint64_t waiting = 0;   // requests
  uint64_t running = 0;
  double requests_per_second = 0;
  double tokens_per_second = 0;  // of output
  std::optional<double> ttft_p50_ms = {};
  std::optional<double> ttft_p90_ms = {};
  std::optional<double> slo_ttft_ms = {};
  std::optional<double> slo_attainment = {};  // share of first tokens in time, since the start
  std::string reason = {};                    // for the number of replicas
  std::optional<std::string> trouble = {};
  std::optional<ModelOrder> paused = {};
  std::optional<ModelOrder> held = {};
};

template <class O>
constexpr void Bind(O& o, ModelNow& now) {
  o.Required("model", now.model);
  o.Required("scaled", now.scaled);
  o.Required("min", now.min);
  o.Required("max", now.max);
  o.Required("wanted", now.wanted);
  o.Required("ready", now.ready);
  o.Required("starting", now.starting);
  o.Required("draining", now.draining);
  o.Required("sleeping", now.sleeping);
  o.Required("asleep", now.asleep);
  o.Required("capacity", now.capacity);
  o.Required("demand", now.demand);
  o.Required("waiting", now.waiting);
  o.Required("running", now.running);
  o.Required("requests_per_second", now.requests_per_second);
  o.Required("tokens_per_second", now.tokens_per_second);
  o.Required("ttft_p50_ms", now.ttft_p50_ms);
  o.Required("ttft_p90_ms", now.ttft_p90_ms);
  o.Required("slo_ttft_ms", now.slo_ttft_ms);
  o.Required("slo_attainment", now.slo_attainment);
  o.Required("reason", now.reason);
  o.Required("trouble", now.trouble);
  o.Required("paused", now.paused);
  o.Required("held", now.held);
}

struct HeldDevices {
  static constexpr std::string_view kSchema = "HeldDevices";

  std::optional<std::string> holder = {};  // a model or a job; null: those of others, together
  std::string_view kind = {};              // model, job, other
  double devices = 0;
};

template <class O>
constexpr void Bind(O& o, HeldDevices& held) {
  o.Required("holder", held.holder);
  o.Required("kind", held.kind);
  o.Required("devices", held.devices);
}

struct DevicesNow {
  static constexpr std::string_view kSchema = "DevicesNow";

  uint64_t total = 0;
  uint64_t free = 0;
  uint64_t faulty = 0;
  uint64_t cordoned = 0;                               // and not held
  std::optional<double> allocation_rate = {};          // GAR
  std::optional<double> occupation_rate = {};          // SOR of the last hour
  std::optional<double> node_fragmentation_rate = {};  // GFR
  std::optional<double> fragmented_share = {};         // of the devices
  double waiting = 0;                                  // devices that waiting work asks for
  std::vector<HeldDevices> by_holder = {};
};

template <class O>
constexpr void Bind(O& o, DevicesNow& now) {
  o.Required("total", now.total);
  o.Required("free", now.free);
  o.Required("faulty", now.faulty);
  o.Required("cordoned", now.cordoned);
  o.Required("allocation_rate", now.allocation_rate);
  o.Required("occupation_rate", now.occupation_rate);
  o.Required("node_fragmentation_rate", now.node_fragmentation_rate);
  o.Required("fragmented_share", now.fragmented_share);
  o.Required("waiting", now.waiting);
  o.Required("by_holder", now.by_holder);
}

struct JobsNow {
  static constexpr std::string_view kSchema = "JobsNow";

  uint64_t running = 0;
  uint64_t waiting = 0;
};

template <class O>
constexpr void Bind(O& o, JobsNow& now) {
  o.Required("running", now.running);
  o.Required("waiting", now.waiting);
}

struct Overview {
  static constexpr std::string_view kSchema = "Overview";

  Time at = {};
  std::vector<ModelNow> models = {};
  DevicesNow devices = {};
  JobsNow jobs = {};
  std::vector<Condition> conditions = {};
};

template <class O>
constexpr void Bind(O& o, Overview& overview) {
  o.Required("at", overview.at);
  o.Required("models", overview.models);
  o.Required("devices", overview.devices);
  o.Required("jobs", overview.jobs);
  o.Required("conditions", overview.conditions);
}

}  // namespace gateway::admin::answers
