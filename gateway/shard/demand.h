// Demand: one request's share of the demand for its model. The request counts as active from its admission to its end,
// and as held while it waits. Updates cells of its shard: those of its class and, if the model has a scaling policy,
// those of the model. The control loop adds the shards up.
//
// Owner: the exchange. Thread: the shard's.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "gateway/metrics/shard_metrics.h"

namespace gateway {

// The estimated demand of a request, before it is sent.
struct RequestDemand {
  DemandCells* model = nullptr;  // null: the model has no scaling policy
  ClassCells* of_class = nullptr;
  uint64_t work_ns = 0;  // nanoseconds of one replica; 0: not estimated
  uint64_t prompt_tokens = 0;
  conf::Duration ttft{};  // the objective for its first token; zero: none
  bool hopeless = false;  // an idle replica needs longer than `ttft` for the prompt
};

class Demand {
 public:
  Demand() = default;
  Demand(const Demand&) = delete;
  Demand& operator=(const Demand&) = delete;
  ~Demand() {
    LetGo();
    if (ask_.of_class) ask_.of_class->active.Sub();
    if (ask_.model) ask_.model->active.Sub();
    if (line_of_) line_of_->lines.Sub();
  }

  // For a line of a batch, which does not count in the demand that the autoscaler follows.
  void BeginLine(DemandCells& model) {
    line_of_ = &model;
    model.lines.Add();
  }

  void Begin(const RequestDemand& ask) {
    ask_ = ask;
    ask.of_class->came.Add();
    ask.of_class->came_tokens.Add(ask.prompt_tokens);
    ask.of_class->active.Add();
    if (!ask.model) return;
    ask.model->work_ns.Add(ask.work_ns);
    ask.model->active.Add();
  }
  void Hold() {
    if (!ask_.of_class || std::exchange(held_, true)) return;
    ask_.of_class->waiting.Add();
    ask_.of_class->waiting_tokens.Add(ask_.prompt_tokens);
    if (ask_.model) ask_.model->held_work_ns.Add(ask_.work_ns);
  }
  void LetGo() {
    if (!std::exchange(held_, false)) return;
    ask_.of_class->waiting.Sub();
    ask_.of_class->waiting_tokens.Sub(ask_.prompt_tokens);
    if (ask_.model) ask_.model->held_work_ns.Sub(ask_.work_ns);
  }
  // The queue refused the request, or its wait ended without a replica.
  void Refused() {
    if (ask_.of_class) ask_.of_class->refused.Add();
  }
  // The first token of a stream came this long after the request. Later calls do nothing.
  void FirstToken(conf::Duration after) {
    const conf::Duration ttft = std::exchange(ask_.ttft, {});  // after a retry, a second first token may come
    if (ttft == conf::Duration::zero()) return;
    ClassCells& cells = *ask_.of_class;
    (ask_.hopeless ? cells.hopeless : after <= ttft ? cells.in_time : cells.late).Add();
  }
  // An answer has ended. `between`: the mean time between its tokens, if it has more than one.
  void Answered(conf::Duration first_token, std::optional<conf::Duration> between) {
    if (!ask_.of_class) return;
    ask_.of_class->time_to_first_token.Observe(first_token);
    if (between) ask_.of_class->time_per_output_token.Observe(*between);
  }

 private:
  RequestDemand ask_;  // without a class before Begin()
  DemandCells* line_of_ = nullptr;
  bool held_ = false;
};

}  // namespace gateway
