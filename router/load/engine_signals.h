// The load of one replica's engine: the work that this process has sent there, the engine's last telemetry, and
// its measured speed.
//
// Our own counts are exact and never stale: work is charged when a replica is chosen and released as the
// answer comes. Telemetry is scraped now and then and used only for what our counts leave out, the work of
// others: the difference between the engine's counts and ours at the moment of the scrape. So old telemetry
// costs little, and telemetry is not needed while no other process sends work there.
//
// An unseen request is one whose first token cannot be seen, because its answer is not streamed. The end of its
// prefill is unknown. So its tokens form a second backlog that drains at the measured rate, in
// the order of arrival among all requests. A first token proves that all unseen work before it is done; an
// answer proves that its own is. The whole duration of an unseen request never counts as prefill time.
//
// Process-wide, one per replica, written and read by every shard: relaxed atomics, and one short lock for the
// meters, which change with first and last tokens only, and for all state of unseen requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "conf/time.h"
#include "router/load/first_token_pace.h"
#include "router/load/observed_batch_limit.h"

namespace router {

// The estimated load of a request on an engine, in tokens.
struct Work {
  int64_t tokens = 1;    // input and output: the measure of the least-load policy
  int64_t uncached = 0;  // prompt tokens that must be computed
  int64_t context = 0;   // what it will hold of the KV cache
  bool unseen = false;   // its answer is not streamed: its first token will not be seen
  int64_t output = 0;    // upper bound of its answer; 0: not known
  // Another replica computes the prompt: the request counts here from the beginning, but no token is expected
  // before Charge::PrefillArrived.
  bool remote_prefill = false;
  bool spare = false;  // nobody waits for it: no sign that replicas are wanted
};

// The record of a request while it is at a replica; its Charge keeps it.
struct InFlightRequest {
  Work work;
  conf::TimePoint began{};
  int64_t behind = 0;             // unseen tokens that arrived up to it, its own included
  conf::TimePoint computed_by{};  // unseen: when its prompt is probably computed
  conf::TimePoint due{};          // unseen: when its answer must be there, at twice the measured time
  bool computed = false;          // its prompt is computed for certain
  bool uncontended = false;       // no other request waited for a first token when it came
  bool loads = false;             // it also loads an adapter: its time says nothing of the prefill rate
  bool coming = false;            // its prompt is still being computed elsewhere
};

// The engine's own metrics, as scraped.
struct Telemetry {
  double running = 0;  // requests
  double waiting = 0;  // requests
  double kv_use = 0;   // 0 to 1
};

// A replica at one moment, in plain numbers: all that a policy may know of it, guesses about unseen requests
// included.
struct ReplicaSignals {
  double requests = 0;      // there, others' included
  double spare = 0;         // of these, ours that nobody waits for
  double waiting = 0;       // of these, before their first token
  double backlog = 0;       // uncached prompt tokens to compute before a new request's
  double context = 0;       // tokens that our requests hold of the KV cache
  double kv_use = 0;        // 0 to 1
  double prefill_rate = 1;  // tokens per second
  double pace = 0;          // seconds between two tokens of an answer, per request there
  double token_time = 0;    // seconds between two tokens, on the mean of the last answers; ...
  double token_requests =
      0;               // the requests that were there at their ends, on the mean; 0: no answer was measured
  double stalled = 0;  // seconds of silence although a token was due
  double max_running = 0;      // requests; 0: its engine does not say
  bool rate_measured = false;  // false: prefill_rate is a first guess
  bool pace_measured = false;  // likewise for pace
  Telemetry scraped = {};      // the last telemetry; our own counts where there is none
};

// A replica at one moment, by observation only: what may hold requests back. Of an unseen request only its
// presence is observed; whether it waits, its engine alone can tell.
struct ObservedSignals {
  double requests = 0;              // there, others' included
  double waiting = 0;               // our streams before their first token
  double backlog = 0;               // their uncached prompt tokens still to be computed
  double prefill_rate = 1;          // tokens per second
  double first_tokens = 0;          // per second while requests wait for one; 0: not measured
  double uncontended = 0;           // seconds to the first token of a request that finds no other waiting
  double latency = 0;               // the part of it that does not grow with the prompt
  double kv_use = 0;                // 0 to 1, by telemetry, minus what has left since
  double max_running = 0;           // requests; 0: its engine does not say
  double observed_batch_limit = 0;  // requests, see ObservedBatchLimit; 0: never seen full
  bool rate_measured = false;
};

struct EngineLimits {
  uint32_t max_running = 0;                               // requests; 0: not known
  int64_t kv_tokens = 0;                                  // 0: not known
  double first_prefill_rate = 8000;                       // tokens per second, until measured
  double first_pace = 0.001;                              // seconds per token and request, until measured
  conf::Duration stale_after = std::chrono::seconds(10);  // older telemetry is not used
};

// Sums since the process began. Two readings give the speed in between, which is how replicas are compared.
struct SpeedTotals {
  double first_tokens = 0;       // first tokens that were seen
  double computed_tokens = 0;    // uncached prompt tokens of those requests
  double computing_seconds = 0;  // time in which requests waited for them
  double answers = 0;            // answers whose pace was seen
  double token_seconds = 0;      // time between two tokens, summed over answers
  double token_requests = 0;     // requests at the replica when each answer ended, summed
};

class alignas(64) EngineSignals {
 public:
  // Our own counts at one moment.
  struct Charged {
    int64_t requests = 0;
    int64_t waiting = 0;
    int64_t context = 0;
  };

  EngineSignals() { Configure({}); }

  // Takes over changed limits; what has been measured stays.
  void Configure(const EngineLimits& limits);

  Charged charged(conf::TimePoint now) const;

  // Takes telemetry and our own counts at the moment of the scrape. NaN and negative numbers count as 0.
  void OnTelemetry(const Telemetry& telemetry, const Charged& then, conf::TimePoint now);

  // The life of one request, reported by its Charge: Begin and End once each, the others at most once
  // between.
  void Begin(InFlightRequest& request, conf::TimePoint now);
  // The prompt that another replica computed has arrived.
  void PrefillArrived(InFlightRequest& request, conf::TimePoint now);
  void FirstToken(InFlightRequest& request, conf::TimePoint now);
  void Answered(InFlightRequest& request, conf::TimePoint now);
  // `token_time`: seconds between two tokens of the answer, on the mean.
  void LearnPace(const InFlightRequest& request, double token_time);
  void End(const InFlightRequest& request);

  // A token of any answer has come, or a whole answer. Cheap enough to call for each.
  void OnToken(conf::TimePoint now);

  ReplicaSignals Read(conf::TimePoint now) const;
  ObservedSignals ReadObserved(conf::TimePoint now) const;

  // How long a sign of life has been overdue. Zero while no request is there, while prompts that must be
  // computed first explain the silence (twice the time that they should take), or while only unseen requests
  // are there and none of their answers is due.
  conf::Duration Overdue(conf::TimePoint now) const;
  conf::TimePoint heard_at() const {
    return conf::TimePoint(conf::Duration(heard_at_.load(std::memory_order_relaxed)));
  }
  // The longest recent silence between two signs of life.
  conf::Duration usual_gap() const { return conf::Duration(usual_gap_.load(std::memory_order_relaxed)); }
  SpeedTotals totals() const;
  // Size of the KV cache by the engine's word; 0: not known.
  double kv_tokens() const { return kv_tokens_.load(std::memory_order_relaxed); }

 private:
  // State of the unseen backlog.
  struct Unseen {
    double stood = 0;    // tokens to be computed at drained_at_
    double left = 0;     // tokens to be computed now
    double waiting = 0;  // requests that those belong to
    double count = 0;    // requests there
    double held = 0;     // uncached tokens of all of them, computed or not
  };

  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }
  void Enter(InFlightRequest& request, bool uncontended, conf::TimePoint now);
  bool TelemetryIsFresh(conf::TimePoint now) const;
  double SeenBacklog(double waiting, double rate, double share, conf::TimePoint now) const;
  double Optimism(conf::TimePoint now) const;
  Unseen ReadUnseen(conf::TimePoint now) const;
  void Drain(conf::TimePoint now);  // with meter_ held
  void KnowDone(int64_t behind);    // with meter_ held
  void BeginUnseen(InFlightRequest& request, conf::TimePoint now);
  void EndUnseen(const InFlightRequest& request);

  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> spare_{0};   // of requests_
  std::atomic<int64_t> coming_{0};  // of requests_: prompts still being computed elsewhere
  std::atomic<int64_t> waiting_{0};
  std::atomic<int64_t> backlog_{0};
  std::atomic<int64_t> context_{0};
  std::atomic<int64_t> heard_at_{0};   // ns
  std::atomic<int64_t> usual_gap_{0};  // ns; decays
  std::atomic<int64_t> computing_since_{
      0};  // ns; the last first token, or when the first request began to wait

  // Unseen requests. Token counts never restart, so that a number is a position in the order of arrival.
  std::atomic<int64_t> unseen_{0};       // requests
  std::atomic<int64_t> unseen_held_{0};  // their uncached tokens
  std::atomic<int64_t> unseen_in_{0};    // tokens that have arrived
  std::atomic<double> unseen_done_{0};   // of these, computed by drained_at_
  std::atomic<double> unseen_then_{0};   // of these, computed by computing_since_
  std::atomic<int64_t> drained_at_{0};   // ns
  std::atomic<int64_t> unseen_due_{0};   // ns; the earliest of dues_

  std::atomic<double> prefill_rate_{0};
  std::atomic<double> pace_{0};
  std::atomic<double> token_time_{0};
  std::atomic<double> met_requests_{0};
  std::atomic<bool> rate_measured_{false};
  std::atomic<bool> pace_measured_{false};
  std::atomic<double> max_running_{0};
  std::atomic<double> kv_tokens_{0};
  std::atomic<int64_t> stale_after_{0};  // ns

  std::atomic<int64_t> scraped_at_{0};  // ns; 0: never
  std::atomic<double> scraped_running_{0};
  std::atomic<double> scraped_waiting_{0};
  std::atomic<double> scraped_kv_{0};
  std::atomic<double> foreign_requests_{0};
  std::atomic<double> foreign_waiting_{0};
  std::atomic<int64_t> context_then_{0};
  std::atomic<double> observed_batch_limit_{0};
  std::atomic<bool> telemetry_is_partial_{false};  // see ObservedBatchLimit::partial

  std::atomic<double> first_tokens_{0};  // per second
  std::atomic<double> uncontended_{0};   // seconds
  std::atomic<double> latency_{0};       // seconds
  std::atomic<int64_t> ended_{0};        // requests, ever

  mutable std::mutex meter_;    // guards all below
  double computed_tokens_ = 0;  // decayed sums
  double computing_seconds_ = 0;
  double token_seconds_ = 0;
  double token_requests_ = 0;
  double last_answers_ = 0;  // of any kind, decayed faster
  double last_seconds_ = 0;
  double last_requests_ = 0;
  bool pace_seen_ = false;  // a streamed answer has shown the pace
  FirstTokenPace first_token_pace_;
  ObservedBatchLimit batch_limit_;
  SpeedTotals totals_;
  double unseen_known_ = 0;  // position up to which unseen tokens are computed for certain
  using Dues = std::multiset<int64_t>;
  Dues dues_;                                // ns; when the answers of unseen requests are due
  std::vector<Dues::node_type> spare_dues_;  // kept, so that a request allocates nothing
};

}  // namespace router
