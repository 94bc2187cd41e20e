// Hop: the way of one request's prompt over a prefill replica, where its pool computes prompts apart.
//
// As vLLM wants it, one after the other: the prefill replica gets the request for one token, with
// kv_transfer_params that say that the prompt is for somebody else; those of its answer go with the request
// to the replica that answers. As SGLang wants it, both at once: both requests carry the prefill replica's
// bootstrap address and a random room in which the two meet, and the prefill replica's answer is dropped.
// Which of the two, and what to do when it fails, is router::Attempt's to say.
//
// Owner: the exchange. Thread: its shard's. The client's leaving aborts it, wherever it stands. What it keeps
// is bounded: an answer of kMaxAnswer bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "conf/time.h"
#include "gateway/api/usage.h"
#include "gateway/net/task.h"
#include "gateway/net/transport.h"
#include "router/attempt.h"

namespace gateway {

struct Exchange;
class Upstream;

// An answer that says no, read whole, so that another replica can be tried before it is passed on.
struct UpstreamRefusal {
  int status = 0;
  std::string content_type;
  std::string body;
};

namespace handover {

inline constexpr size_t kMaxAnswer = 4u << 20;

// Whether the request can be said in two parts: one answer to one prompt, in an API whose requests engines
// hand over.
bool CanBeSplit(const Exchange& x);

class Hop {
 public:
  explicit Hop(Exchange& x);
  ~Hop();
  Hop(const Hop&) = delete;
  Hop& operator=(const Hop&) = delete;

  // One after the other: computes the prompt at `step.prefill`, and tells how that went.
  net::Task<router::Event> Compute(const router::Step& step, conf::TimePoint now);

  // Both at once: begins to. What comes of it is told by Failure(), and to the attempt.
  net::Task<void> Begin(const router::Step& step, conf::TimePoint now);
  // How it went wrong, once it has: the try at the other replica was given up for that.
  const std::optional<router::Event>& failure() const { return failure_; }
  // Nobody needs what is still under way.
  void Drop() {
    if (beside_) Abort();
  }
  // Waits until nothing of it is under way; what has not ended soon is given up.
  net::Task<void> Finish();

  // Members for the request of the replica that is to answer; empty: it gets what the client sent.
  std::string_view members() const { return members_; }
  // The prompt tokens of the answer that had not to be computed anywhere.
  uint64_t CachedOf(const api::Usage& answer) const;
  // The replica that has computed the prompt of the answer; none: whoever answers did.
  std::optional<router::ReplicaId> computed_at() const { return computed_at_; }
  // A prefill replica has computed the prompt, and has not said where anybody could fetch it.
  bool in_vain() const { return in_vain_; }

  // Of a failure that is the request's own: what the client is to be told.
  const UpstreamRefusal& refusal() const { return refusal_; }
  // The try that follows has nothing to do with it.
  void Forget();

  void Abort();

 private:
  friend class gateway::Upstream;

  net::Task<router::Event> Try(const router::Step& step, std::string_view members, bool only_prompt,
                               conf::TimePoint now);
  net::Task<router::Event> ReadAnswer(Upstream& upstream, bool only_prompt, conf::TimePoint until);
  net::Task<void> RunBeside(router::Step step, conf::TimePoint now);
  void Tell(const router::Step& step, const router::Event& event, conf::TimePoint now);

  Exchange& x_;
  std::string members_;
  std::optional<router::ReplicaId> computed_at_;
  std::optional<uint64_t> cached_;
  conf::Duration time_{};
  bool in_vain_ = false;

  net::Abortable* waiting_ = nullptr;  // what stands in the way of an abort
  bool aborted_ = false;
  bool beside_ = false;  // a task of its own is under way
  net::Event ended_;
  std::optional<router::Event> failure_;
  UpstreamRefusal refusal_;
};

}  // namespace handover
}  // namespace gateway
