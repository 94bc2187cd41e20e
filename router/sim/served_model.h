// One model as the gateway serves it, in virtual time: its queue, the production router over the replicas that serve
// now, and the lines of a backlog of batches beside its requests. Its owner begins and ends replicas and moves
// the time (fleet.h).
//
// Pure: the same calls give the same report. Times must not go back.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "router/admission/queue.h"
#include "router/candidates.h"
#include "router/load/replica_load.h"
#include "router/sim/report.h"
#include "router/sim/world.h"
#include "scheduler/autoscale/autoscaler.h"
#include "scheduler/autoscale/capacity.h"
#include "scheduler/engine/model.h"
#include "scheduler/rng.h"

namespace router::sim {

struct ServedModelOptions {
  std::string name;
  scheduler::engine::Profile engine;
  conf::Duration ttft = std::chrono::seconds(2);
  conf::Duration inter_token = std::chrono::milliseconds(200);
  WaitOptions queue;
  uint32_t lines_in_flight = 0;   // at replicas or in the queue, at most
  conf::Duration sample_every{};  // of Report::first_tokens; zero: none
  uint64_t seed = 1;
};

class ServedModel {
 public:
  // `requests` by time since `begin`; `lines` begin again when all have been sent, and end with the last request.
  // Both must outlive it.
  ServedModel(ServedModelOptions options, std::span<const Request> requests, std::span<const Request> lines,
              conf::TimePoint begin);

  // When it must be advanced next.
  conf::TimePoint Next() const;
  void Advance(conf::TimePoint now);

  // A replica with an empty cache serves from now on. `number` is new.
  void Add(uint32_t number, conf::TimePoint now);
  // Whether it gets new requests.
  void SetOpen(uint32_t number, bool open, conf::TimePoint now);
  // It ends at once: its lines go again, and so do requests without a first token; other answers break off.
  void Remove(uint32_t number, conf::TimePoint now);
  uint32_t InFlight(uint32_t number) const;  // requests and lines there

  // What the autoscaler sees since the last call, which was `passed` ago.
  scheduler::autoscale::Signals TakeSignals(conf::Duration passed, conf::TimePoint now);
  uint32_t waiting() const { return queue_.urgent(); }  // requests without a replica
  conf::Duration OldestWaiting(conf::TimePoint now) const;
  uint64_t lines() const { return open_lines_; }
  conf::Duration OldestLine(conf::TimePoint now) const;
  bool ended() const { return next_request_ == requests_.size() && open_ == 0 && waiting() == 0; }
  size_t arrived() const { return next_request_; }
  Report MakeReport(conf::TimePoint now);

 private:
  using Id = uint64_t;  // a request's place among the requests; of lines, larger numbers

  struct Replica {
    Replica(const scheduler::engine::Profile& profile, conf::TimePoint now) : model(profile, now) {}

    uint32_t number = 0;
    std::string identity{};
    scheduler::engine::Model model;
    std::shared_ptr<ReplicaState> state{};
    std::vector<Id> there{};
    bool open = true;
  };
  struct Flight {
    Charge charge{};
    std::optional<conf::TimePoint> first_token{};
    double work = 0;     // estimated seconds of a replica
    double prefill = 0;  // of these, until its first token
    bool was_held = false;
  };
  struct Held {
    Id id = 0;
    OwnedPickFacts facts;
  };

  bool IsLine(Id id) const { return id >= requests_.size(); }
  const Request& RequestOf(Id id) const {
    return IsLine(id) ? lines_[(id - requests_.size()) % lines_.size()] : requests_[id];
  }
  Replica* Find(uint32_t number) const;
  void RebuildTable();
  void Deliver();
  PickFacts FactsOf(Id id, std::span<PrefixMatch> matches) const;
  void Arrive(Id id);
  void Come(Id id);
  void CallWaiting();
  void DropExpired();
  void DropWaitingLines();
  void Send(Id id);
  void SendLines();
  void Refuse(Id id, uint64_t& count);
  void OnEvent(Replica& replica, const scheduler::engine::Event& event);
  void CountFirstToken(Id id, const Flight& flight);
  void Leave(Replica& replica, Id id);

  const ServedModelOptions options_;
  const std::span<const Request> requests_;
  const std::span<const Request> lines_;
  const conf::TimePoint begin_;
  const scheduler::autoscale::Capacity capacity_;
  prefix::Index index_;
  ReplicaStates states_;
  AdmissionQueue queue_;
  scheduler::Rng rng_;
  conf::TimePoint now_;
  conf::TimePoint next_call_;
  conf::TimePoint delivered_{};

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Replica*> open_replicas_;  // by ReplicaId of the table
  std::unique_ptr<RouteTable> table_;    // of these; null: there are none
  std::unique_ptr<LoadView> load_;

  absl::flat_hash_map<Id, std::unique_ptr<Flight>> flights_;  // at replicas or waiting
  absl::flat_hash_map<WaitTicket, Held> held_;
  size_t next_request_ = 0;
  Id next_line_ = 0;                                  // since the beginning
  std::deque<Id> again_;                              // lines whose replica has ended
  uint64_t open_ = 0;                                 // requests at replicas
  uint64_t open_lines_ = 0;                           // at replicas or waiting
  double arrived_work_ = 0;                           // seconds of a replica, since the last TakeSignals
  double waiting_work_ = 0;                           // of requests that wait
  double hits_ = 0;                                   // expected part of a prompt that is cached
  scheduler::autoscale::FirstTokens first_tokens_{};  // since the last TakeSignals
  scheduler::autoscale::AnswerSizes answers_{256};
  std::vector<scheduler::engine::Event> events_;
  ReportBuilder report_;
};

}  // namespace router::sim
