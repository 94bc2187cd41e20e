// What is known of one replica's engine: the work that this process has put there, what the engine last said
// of itself, and how fast it has been seen to work.
//
// The first is exact and never stale: it is charged when a replica is chosen and taken back as the answer
// comes. The second, scraped now and then, is only used for what the first leaves out (work that others have
// put there): the difference between the engine's counts and ours at the moment of the scrape. So old
// telemetry costs little, and none costs nothing as long as nobody else sends work there.
//
// A unseen request is one whose first token cannot be seen: its answer comes whole. Nobody can tell when its
// prompt has been computed, so its tokens stand in a backlog of their own that drains at the measured rate,
// in the order of arrival with what can be seen: a first token that comes says that all unseen work before it
// is done, an answer says so of its own. Its whole duration never counts as prefill.
//
// Process-wide, one per replica, written and read by every shard: relaxed atomics, and a short lock around
// the meters, which are moved by first and last tokens only, and around all that unseen requests change.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

#include "conf/time.h"
#include "router/admission/first_token_pace.h"
#include "router/admission/full_batch.h"

namespace router {

// What a request will ask of an engine, in tokens; estimates.
struct Work {
  int64_t tokens = 1;    // input and output: what least-load goes by
  int64_t uncached = 0;  // of the prompt: what must be computed
  int64_t context = 0;   // what it will hold of the KV cache
  bool unseen = false;   // its answer comes whole: its first token will not be seen
  int64_t output = 0;    // the most that its answer may have; 0: not known
  // Its prompt is computed elsewhere: the request counts here from the beginning, and is expected to be heard
  // of from EngineSignals::Arrived on.
  bool handed_over = false;
};

// What is kept of a request while it is at a replica; by its Charge.
struct Stay {
  Work work;
  conf::TimePoint began{};
  int64_t behind = 0;             // unseen tokens that came there up to it, its own included
  conf::TimePoint computed_by{};  // unseen: when its prompt is likely to be computed
  conf::TimePoint due{};          // unseen: when its answer must be there, by twice what is measured
  bool computed = false;          // its prompt, for certain
  bool alone = false;             // nobody waited for a first token there when it came
  bool loads = false;             // something else than computing: nothing is learnt of the engine's rate
  bool coming = false;            // its prompt is still being computed elsewhere
};

// An engine's own words, scraped.
struct Telemetry {
  double running = 0;  // requests
  double waiting = 0;
  double kv_use = 0;  // 0 to 1
};

// One moment of a replica, in plain numbers: all that a law may know of it, guesses about requests whose
// answers come whole included.
struct Signals {
  double requests = 0;         // there, others' included
  double waiting = 0;          // of these, before their first token
  double backlog = 0;          // uncached prompt tokens that are to be computed first
  double context = 0;          // tokens that our requests hold of the KV cache
  double kv_use = 0;           // 0 to 1
  double prefill_rate = 1;     // tokens a second
  double pace = 0;             // seconds from one token of an answer to the next, for each request there
  double stalled = 0;          // seconds for which something should have been heard, and was not
  double max_running = 0;      // requests; 0: its engine does not say
  bool rate_measured = false;  // else it is a first guess
  bool pace_measured = false;
  Telemetry scraped = {};  // the last telemetry; our own counts where there is none
};

// What has been seen of it, and nothing that is guessed: what may hold requests back. Of a request whose
// answer comes whole only that it is there is seen; whether it waits its engine alone can tell.
struct SeenSignals {
  double requests = 0;      // there, others' included
  double waiting = 0;       // our streams, before their first token
  double backlog = 0;       // their uncached prompt tokens that are to be computed first
  double prefill_rate = 1;  // tokens a second
  double first_tokens = 0;  // a second, while somebody waits for one; 0: not measured
  double alone = 0;         // seconds to the first token of who finds nobody waiting
  double latency = 0;       // of these, those that do not grow with the prompt
  double kv_use = 0;        // 0 to 1, by the engine's word, less what has left since
  double max_running = 0;   // requests; 0: its engine does not say
  double full_batch = 0;    // requests that ran while others queued in the engine, by its word; 0: none seen
  bool rate_measured = false;
};

struct EngineLimits {
  uint32_t max_running = 0;          // requests; 0: not known
  int64_t kv_tokens = 0;             // 0: not known
  double first_prefill_rate = 8000;  // tokens a second, until measured
  double first_pace = 0.001;         // seconds a token for each request there, until measured
  conf::Duration stale_after = std::chrono::seconds(10);  // telemetry older than this is not used
};

// What has been measured since the process began, for who compares replicas over a time.
struct Tally {
  double first_tokens = 0;       // that were seen
  double computed_tokens = 0;    // uncached prompt tokens behind them
  double computing_seconds = 0;  // for which somebody waited for them
  double answers = 0;            // whose pace was seen
  double token_seconds = 0;      // from one token to the next, summed over answers
  double token_requests = 0;     // that were there at their ends
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

  // What the engine said, and our counts at the time at which it said so. NaN and negative numbers are left
  // out.
  void OnTelemetry(const Telemetry& telemetry, const Charged& then, conf::TimePoint now);

  // A token of any answer has come, or a whole answer. Cheap enough for each.
  void OnToken(conf::TimePoint now);

  Signals Read(conf::TimePoint now) const;
  SeenSignals ReadSeen(conf::TimePoint now) const;

  // For how long something should have been heard of what is under way there, and was not: zero while nobody
  // is there, while prompts that are to be computed first explain the silence (twice the time that they
  // should take), or while only answers that come whole are waited for and none is overdue.
  conf::Duration Overdue(conf::TimePoint now) const;
  conf::TimePoint heard_at() const {
    return conf::TimePoint(conf::Duration(heard_at_.load(std::memory_order_relaxed)));
  }
  // The longest silence between two signs of life, of late.
  conf::Duration usual_gap() const { return conf::Duration(usual_gap_.load(std::memory_order_relaxed)); }
  Tally tally() const;
  // As the engine says; 0: not known.
  double kv_tokens() const { return kv_tokens_.load(std::memory_order_relaxed); }

 private:
  friend class Charge;
  struct Unseen {
    double stood = 0;    // tokens that were to be computed when last reckoned
    double left = 0;     // ... and are now
    double waiting = 0;  // requests of which they are
    double count = 0;    // requests there
    double held = 0;     // uncached tokens of them all, computed or not
  };

  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }
  void Begin(Stay& stay, conf::TimePoint now);
  void Arrived(Stay& stay, conf::TimePoint now);
  void Enter(Stay& stay, bool alone, conf::TimePoint now);
  void FirstToken(Stay& stay, conf::TimePoint now);
  void Answered(Stay& stay, conf::TimePoint now);
  void LearnPace(const Stay& stay, double token_time);
  void End(const Stay& stay);
  bool TelemetryIsFresh(conf::TimePoint now) const;
  double SeenBacklog(double waiting, double rate, double share, conf::TimePoint now) const;
  double Hope(conf::TimePoint now) const;
  Unseen ReadUnseen(conf::TimePoint now) const;
  void Drain(conf::TimePoint now);  // with meter_ held
  void KnowDone(int64_t behind);    // with meter_ held
  void BeginUnseen(Stay& stay, conf::TimePoint now);
  void EndUnseen(const Stay& stay);

  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> coming_{0};  // of requests_: their prompts are being computed elsewhere
  std::atomic<int64_t> waiting_{0};
  std::atomic<int64_t> backlog_{0};
  std::atomic<int64_t> context_{0};
  std::atomic<int64_t> heard_at_{0};         // ns
  std::atomic<int64_t> usual_gap_{0};        // ns; decays
  std::atomic<int64_t> computing_since_{0};  // ns; the last first token, or when the first came to wait

  // Unseen requests. Tokens are counted on from the first one ever, so that a place in the order is a number.
  std::atomic<int64_t> unseen_{0};       // requests
  std::atomic<int64_t> unseen_held_{0};  // tokens of those
  std::atomic<int64_t> unseen_in_{0};    // tokens that came
  std::atomic<double> unseen_done_{0};   // of these, computed by drained_at_
  std::atomic<double> unseen_then_{0};   // ... by computing_since_
  std::atomic<int64_t> drained_at_{0};   // ns
  std::atomic<int64_t> unseen_due_{0};   // ns; the earliest of dues_

  std::atomic<double> prefill_rate_{0};
  std::atomic<double> pace_{0};
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
  std::atomic<double> full_batch_{0};
  std::atomic<bool> telemetry_is_partial_{false};  // not of all that we send there

  std::atomic<double> first_tokens_{0};  // a second
  std::atomic<double> alone_{0};         // seconds
  std::atomic<double> latency_{0};       // likewise
  std::atomic<int64_t> ended_{0};        // requests, ever

  mutable std::mutex meter_;    // of what follows
  double computed_tokens_ = 0;  // decayed sums
  double computing_seconds_ = 0;
  double token_seconds_ = 0;
  double token_requests_ = 0;
  bool pace_seen_ = false;  // of an answer that came token by token
  FirstTokenPace first_token_pace_;
  FullBatch batch_;
  Tally tally_;
  double unseen_known_ = 0;      // tokens that are computed for certain, and all before them
  std::multiset<int64_t> dues_;  // ns; of the unseen requests there
};

}  // namespace router
