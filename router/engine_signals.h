// What is known of one replica's engine: the work that this process has put there, what the engine last said
// of itself, and how fast it has been seen to work.
//
// The first is exact and never stale: it is charged when a replica is chosen and taken back as the answer
// comes. The second, scraped now and then, is only used for what the first leaves out (work that others have
// put there): the difference between the engine's counts and ours at the moment of the scrape. So old
// telemetry costs little, and none costs nothing as long as nobody else sends work there.
//
// Process-wide, one per replica, written and read by every shard: relaxed atomics, and a short lock around
// the meters, which are moved by first and last tokens only.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "conf/time.h"

namespace router {

// What a request will ask of an engine, in tokens; estimates.
struct Work {
  int64_t tokens = 1;    // input and output: what least-load goes by
  int64_t uncached = 0;  // of the prompt: what must be computed
  int64_t context = 0;   // what it will hold of the KV cache
  bool unseen = false;   // the answer comes whole, so nobody sees when its prompt is computed
};

// An engine's own words, scraped.
struct Telemetry {
  double running = 0;  // requests
  double waiting = 0;
  double kv_use = 0;  // 0 to 1
};

// One moment of a replica, in plain numbers: all that a law may know of it.
struct Signals {
  double requests = 0;      // there, others' included
  double waiting = 0;       // of these, before their first token
  double backlog = 0;       // uncached prompt tokens that are to be computed first
  double context = 0;       // tokens that our requests hold of the KV cache
  double kv_use = 0;        // 0 to 1
  double prefill_rate = 1;  // tokens a second
  double pace = 0;          // seconds from one token of an answer to the next, for each request there
  double stalled = 0;       // seconds for which requests have been there and nothing was heard
  double max_running = 0;   // requests
  Telemetry scraped = {};   // the last telemetry; our own counts where there is none
};

struct EngineLimits {
  uint32_t max_running = 256;
  int64_t kv_tokens = 0;             // 0: not known
  double first_prefill_rate = 8000;  // tokens a second, until measured
  double first_pace = 0.001;         // seconds a token for each request there, until measured
  conf::Duration stale_after = std::chrono::seconds(10);  // telemetry older than this is not used
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

  Charged charged() const;

  // What the engine said, and our counts at the time at which it said so. NaN and negative numbers are left
  // out.
  void OnTelemetry(const Telemetry& telemetry, const Charged& then, conf::TimePoint now);

  // A token of any answer has come.
  void OnToken(conf::TimePoint now) { heard_at_.store(Nanos(now), std::memory_order_relaxed); }

  Signals Read(conf::TimePoint now) const;

 private:
  friend class Charge;
  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }
  void Begin(const Work& work, conf::TimePoint now);
  void FirstToken(const Work& work, conf::TimePoint now);
  void LearnPace(double token_time);
  void End(const Work& work, bool first_token);

  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> waiting_{0};
  std::atomic<int64_t> backlog_{0};
  std::atomic<int64_t> context_{0};
  std::atomic<int64_t> heard_at_{0};         // ns
  std::atomic<int64_t> computing_since_{0};  // ns; the last first token, or when the first came to wait

  std::atomic<double> prefill_rate_{0};
  std::atomic<double> pace_{0};
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

  std::mutex meter_;            // of what follows
  double computed_tokens_ = 0;  // decayed sums
  double computing_seconds_ = 0;
  double token_seconds_ = 0;
  double token_requests_ = 0;
};

}  // namespace router
