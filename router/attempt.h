// The life of one request towards its replicas, without I/O: what to do next, given what has happened.
//
// The shell starts with Start(), does what each Step says and reports back with the next Event; the machine
// picks replicas, charges them, tells their breakers, and retries, but only while no byte has gone to the
// client, on a replica not tried yet, within the model's retry budget and the deadline. Owner: the request,
// on its shard. Table, view and rng must outlive it.
//
// Where its model's queue refuses the request, fallbacks for `overloaded` that have room are all that is
// tried.
//
//   Start ─▶ kTry ─▶ (head) kRelay ─▶ (first byte) kRelay ─▶ (end) kDone
//              │└─▶ failed: kWait ─▶ kTry another, or a fallback model's; else kRelay (the upstream's own
//              refusal) or kFail └──▶ client gone, in any state: kCancel
//
// Where the pool's prompts may be computed apart (see handover.h), a kTry names the replica that is to do it.
// The shell does that first, or beside the try where the pool hands over so, and reports how it went to
// ResumePrefill. When it fails, another prefill replica is named, and in the end nobody: then the replica
// that answers computes the prompt itself.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "conf/time.h"
#include "router/handover.h"
#include "router/pick.h"

namespace router {

struct Event {
  enum class Kind : uint8_t {
    kStart,
    kNoTurn,         // instead of kStart: the model's queue refuses the request
    kWoke,           // the time of a kWait has come
    kConnectFailed,  // refused, unreachable, TLS, time-out of the connect
    kReusedClosed,   // a kept-alive connection turned out closed before any byte of an answer
    kStatus,         // the answer's head is here; its body is not yet read
    kTimedOut,       // the request was sent, and nothing came in time
    kHung,           // nothing came, and the replica is taken to hang: MayLeave() said so
    kFirstByte,      // a byte of the answer has gone to the client
    kBroken,         // the answer broke off, or was not HTTP
    kCompleted,      // the answer is whole
    kClientGone,
  };

  static Event Of(Kind kind) { return {kind, 0, {}, false, false}; }
  static Event Status(int status, std::optional<conf::Duration> retry_after = {},
                      bool context_exceeded = false, bool model_unknown = false) {
    return {Kind::kStatus, status, retry_after, context_exceeded, model_unknown};
  }

  static std::string_view NameOf(Kind kind);

  Kind kind;
  int status;
  std::optional<conf::Duration> retry_after;
  bool context_exceeded;  // a 400 that says the prompt is too long
  bool model_unknown;     // a 404 that says there is no such model
};

enum class AttemptError : uint8_t {
  kNone,
  kNoReplica,      // the model has none: 503
  kUnavailable,    // all down, broken or resting; Step::until says when to come back: 503
  kConnectFailed,  // 502
  kUpstreamBroke,  // before the first byte: 502
  kTimedOut,       // 504
  kDeadline,       // the client's own deadline has passed: 408 or 504
  kBrokenStream,   // after the first byte: the stream must end with an error in its own form
};
std::string_view ErrorName(AttemptError error);

struct Step {
  enum class Kind : uint8_t {
    kTry,     // send the request to `replica`, dropping any answer in hand
    kWait,    // until `until`, then report kWoke; drop any answer in hand
    kRelay,   // pass the answer in hand on to the client, as it is
    kDone,    // it has ended well
    kFail,    // it has ended with `error`
    kCancel,  // close the upstream at once
  };
  Kind kind;
  ReplicaId replica{};
  ModelId model{};
  std::optional<ReplicaId> prefill{};  // kTry: who computes the prompt first
  bool fresh_connection = false;       // do not take one from the pool; of `prefill`, where that is given
  conf::TimePoint until{};             // kWait; and kFail with kUnavailable: when to come back, if known
  AttemptError error = AttemptError::kNone;
  std::string_view why{};  // the pick's reason, or the refusal's; static
};

class Attempt {
 public:
  Attempt(const RouteTable& table, const LoadView& load, ModelId model, const PickFacts& facts,
          std::optional<conf::TimePoint> deadline, scheduler::Rng& rng)
      : table_(table),
        load_(load),
        primary_(model),
        model_(model),
        facts_(facts),
        deadline_(deadline),
        rng_(rng) {}

  Step Resume(const Event& event, conf::TimePoint now);

  // How computing the prompt at the last step's `prefill` went: kCompleted, when its answer is there, or any
  // event that a try may end with; kStatus only of refusals.
  Step ResumePrefill(const Event& event, conf::TimePoint now);
  // It is being computed, or its time has not come yet.
  bool prefilling() const { return prefill_.replica.has_value(); }
  // It has been computed, and what says where is good for the replica of the next try.
  bool prefilled() const { return prefilled_; }

  // Whether a request that waits for its first byte may go elsewhere because its replica is taken to hang:
  // once, within the budget, and only if somebody else can take it. One that came to find out waits for
  // hung_after.
  bool MayLeave(conf::TimePoint now) const;

  uint32_t tries() const { return static_cast<uint32_t>(tried_.size()); }
  uint32_t retries() const { return retries_; }
  ModelId model() const { return model_; }  // the one that serves: the asked one, or a fallback
  const Decision& decision() const { return decision_; }
  // Tokens of the prompt that were taken to be held where it is, or was, computed.
  int64_t predicted_cached() const { return decision_.handed_over ? prefill_cached_ : decision_.cached; }
  // Prompts that were to be computed apart, and were not.
  bool fell_back() const { return fell_back_; }
  Charge& charge() { return decision_.charge; }

 private:
  Step First(conf::TimePoint now);
  // The adapter that is asked for is not known there.
  void NoteLacking(conf::TimePoint now);
  Step OnStatus(const Event& event, conf::TimePoint now);
  // After a failed try: elsewhere if that is allowed and possible; else fails with `error`, or, where that is
  // kNone, relays the answer in hand.
  Step Again(FallbackOn condition, AttemptError error, conf::TimePoint now);
  Step BackOff(conf::TimePoint now);
  bool PickFrom(ModelId model, conf::TimePoint now);
  Pair PickOther(ModelId model, conf::TimePoint now);
  void TakePrefill(Decision decision);
  // Another prefill replica, or none.
  Step PrefillElsewhere(bool again, conf::TimePoint now);
  // The replica that was to be handed the prompt computes it itself, where it can.
  Step ComputeHere(conf::TimePoint now);
  enum class Fallbacks : uint8_t { kAny, kWithRoom };
  bool PickFallback(FallbackOn condition, conf::TimePoint now, Fallbacks which = Fallbacks::kAny);
  Step Try(bool fresh);
  Step End(Step step);
  Step Fail(AttemptError error) {
    return End({.kind = Step::Kind::kFail, .error = error, .why = ErrorName(error)});
  }
  bool PastDeadline(conf::TimePoint now) const { return deadline_ && now >= *deadline_; }
  const RetryPolicy& retry() const { return table_.model(primary_).spec.retry; }

  const RouteTable& table_;
  const LoadView& load_;
  const ModelId primary_;
  ModelId model_;
  const PickFacts facts_;
  const std::optional<conf::TimePoint> deadline_;
  scheduler::Rng& rng_;

  Decision decision_;
  NoneBecause none_ = NoneBecause::kPicked;  // of the last pick that found nobody
  std::optional<conf::TimePoint> retry_at_;  // likewise
  Decision prefill_;  // of the replica that computes the prompt; without one when none does, or it has
  int64_t prefill_cached_ = 0;
  bool prefilled_ = false;
  bool fell_back_ = false;
  absl::InlinedVector<ReplicaId, 4> prefills_failed_;
  absl::InlinedVector<ReplicaId, 8> tried_;
  absl::InlinedVector<ReplicaId, 4> lacking_;  // of these, good for other models
  uint32_t retries_ = 0;
  size_t next_fallback_ = 0;
  bool ended_ = false;
  bool fresh_ = false;       // this try goes over a new connection
  bool left_hung_ = false;   // it has gone elsewhere because a replica hung
  bool first_byte_ = false;  // the client has seen some of the answer
  std::optional<conf::TimePoint> give_up_waiting_;
};

}  // namespace router
