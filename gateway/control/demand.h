// Demand: one request's part of what its model is asked for: from when it is admitted until it ends it is
// there, and as long as it waits it is held. Bumps its shard's cells, of its class and, where replicas are
// started and stopped by demand, of its model; the control loop adds them up.
//
// Owner: the exchange. Shard's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "gateway/metrics/shard_metrics.h"

namespace gateway {
struct Exchange;
}

namespace gateway::control {

// What a request asks for, as far as can be told before it is sent.
struct Ask {
  DemandCells* model = nullptr;  // null: nobody scales by it
  ClassCells* of_class = nullptr;
  uint64_t work_ns = 0;  // of a replica; 0: nobody reckons it
  uint64_t prompt_tokens = 0;
  conf::Duration ttft{};  // within which its first token is to come; zero: whenever
  bool hopeless = false;  // the prompt takes an idle replica longer than that
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
  }

  void Begin(const Ask& ask) {
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
  // There was no room, or not in time.
  void Refused() {
    if (ask_.of_class) ask_.of_class->refused.Add();
  }
  // Of a stream, so long after the request came.
  void FirstToken(conf::Duration after) {
    const conf::Duration ttft = std::exchange(ask_.ttft, {});  // of an answer that begins again, the first
    if (ttft == conf::Duration::zero()) return;
    ClassCells& cells = *ask_.of_class;
    (ask_.hopeless ? cells.hopeless : after <= ttft ? cells.in_time : cells.late).Add();
  }
  // Of an answer that has ended; `between` its tokens, on the mean, where there was more than one.
  void Answered(conf::Duration first_token, std::optional<conf::Duration> between) {
    if (!ask_.of_class) return;
    ask_.of_class->time_to_first_token.Observe(first_token);
    if (between) ask_.of_class->time_per_output_token.Observe(*between);
  }

 private:
  Ask ask_;  // without a class: it has not begun
  bool held_ = false;
};

// Of a request whose limits have let it in.
Ask AskOf(const Exchange& x);

}  // namespace gateway::control
