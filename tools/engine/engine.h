// Engine: the model in real time, and its jobs. Sockets and timers belong to the server; time is an argument
// here.
//
// One thread. A started job must live until it has finished or was given to Cancel.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/engine/model.h"
#include "tools/engine/api.h"
#include "tools/engine/job.h"
#include "tools/engine/kv_log.h"
#include "tools/engine/metrics.h"

namespace tidegate_engine {

struct Ended {
  uint64_t completed = 0;
  uint64_t waiting = 0;  // cancelled in this phase
  uint64_t prefill = 0;
  uint64_t decode = 0;
  uint64_t cancelled() const { return waiting + prefill + decode; }
};

class Engine {
 public:
  // With `log_kv` it keeps a KvLog.
  Engine(scheduler::engine::Profile profile, std::string model_name, conf::TimePoint start,
         bool log_kv = false);

  // Submits every choice of the job, all or none; their answers are decided. Returns the error for the
  // client.
  std::optional<ApiError> Start(Job& job, conf::TimePoint now);

  // The client has left: removes unfinished choices from the model at once.
  void Cancel(Job& job, conf::TimePoint now);

  // Removes the job from the model without counting it as cancelled, because a fault ends it.
  void Withdraw(Job& job, conf::TimePoint now);

  // Continues every finished choice of an endless job whose tokens are all sent.
  void Continue(Job& job, conf::TimePoint now);

  conf::TimePoint NextStep() const { return model_.NextStep(); }

  // One step. Appends each job with new tokens, or with an end, to `advanced`, unless its flag says that it
  // is in the list; the reader of the list clears the flags.
  void Step(conf::TimePoint now, std::vector<Job*>& advanced);

  // Tokens of prompt and output together.
  uint64_t ContextLimit() const;

  bool Ready(conf::TimePoint now) const { return model_.Ready(now); }
  void DropPrefixes() { model_.DropPrefixes(); }
  const scheduler::engine::Model& model() const { return model_; }
  const Metrics& metrics() const { return metrics_; }
  const Ended& ended() const { return ended_; }
  KvLog* kv_log() { return kv_log_.get(); }
  const KvLog* kv_log() const { return kv_log_.get(); }

 private:
  scheduler::engine::Admission Submit(Job& job, size_t index, conf::TimePoint now);
  scheduler::engine::Phase Remove(Job& job, conf::TimePoint now);
  ApiError Refusal(scheduler::engine::Admission admission, uint64_t prompt, uint64_t output) const;
  std::vector<uint64_t> Blocks(const Choice& choice) const;
  void Log(const Choice& choice, const std::vector<uint64_t>& blocks);
  void Forget(uint64_t sequence);

  std::unique_ptr<KvLog> kv_log_;  // outlives the model, which writes to it
  scheduler::engine::Model model_;
  Metrics metrics_;
  Ended ended_;
  uint64_t next_sequence_ = 1;
  absl::flat_hash_map<uint64_t, std::pair<Job*, size_t>> sequences_;
  std::vector<scheduler::engine::Event> events_;
};

}  // namespace tidegate_engine
