// PrefillTransfer: the computation of one request's prompt on a prefill replica, where the pool separates it
// from the generation.
//
// With vLLM the two steps run one after the other: the prefill replica gets the request for a single token,
// with kv_transfer_params that announce another reader; the parameters of its answer go with the request to
// the replica that answers. With SGLang both run at once: both requests carry the prefill replica's bootstrap
// address and a random room in which the replicas meet, and the prefill replica's answer is dropped.
// router::Attempt decides which replica computes the prompt, and what happens after a failure.
//
// Owner: the exchange. Thread: its shard's. The client's leaving aborts it at any point. It keeps at most
// kMaxPrefillAnswer bytes of an answer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "conf/time.h"
#include "gateway/api/usage.h"
#include "gateway/net/task.h"
#include "gateway/net/transport.h"
#include "gateway/request/cancel_scope.h"
#include "gateway/request/outgoing_request.h"
#include "gateway/request/prompt_prefix.h"
#include "gateway/request/serve/upstream.h"
#include "gateway/request/timeline.h"
#include "router/attempt.h"

namespace gateway {

inline constexpr size_t kMaxPrefillAnswer = 4u << 20;

// Whether the prompt can be computed apart: one answer to one prompt, in an API for which engines support it.
bool CanSplitPrefill(const OutgoingRequest& request);

class PrefillTransfer {
 public:
  PrefillTransfer(const OutgoingRequest& request, const PromptPrefix& prefix, const Timeline& at);
  ~PrefillTransfer();
  PrefillTransfer(const PrefillTransfer&) = delete;
  PrefillTransfer& operator=(const PrefillTransfer&) = delete;

  // One after the other: computes the prompt at `step.prefill`; returns how that went.
  net::Task<router::Event> Compute(const router::Step& step, const router::Attempt& attempt,
                                   conf::TimePoint now);
  // How long the last computation took.
  conf::Duration time() const { return time_; }

  // Both at once: begins the computation beside the try. Its success is reported to the attempt; its failure
  // is failure(), and aborts the try that was named by SetAnswer().
  net::Task<void> Begin(const router::Step& step, router::Attempt& attempt, conf::TimePoint now);
  void SetAnswer(Upstream* answer) { answer_ = answer; }
  const std::optional<router::Event>& failure() const { return failure_; }
  // Ends a computation that runs beside a try, since its result is not needed.
  void Drop() {
    if (beside_) cancel_.Cancel();
  }
  // Waits until no computation runs. One that does not end soon is aborted.
  net::Task<void> Finish();
  // The next try does not use the last computation.
  void Forget();

  // Members for the request of the replica that answers; empty: it gets the client's own request.
  std::string_view members() const { return members_; }
  // The prompt tokens of the answer that were in a cache, wherever the prompt was computed.
  uint64_t CachedOf(const api::Usage& answer) const;
  // The replica that computed the prompt of the answer; none: the answering replica did.
  std::optional<router::ReplicaId> computed_at() const { return computed_at_; }
  // A prefill replica computed the prompt, but did not say where it can be fetched.
  bool in_vain() const { return in_vain_; }

  // The answer for the client, if the failure is the request's own fault.
  const UpstreamRefusal& refusal() const { return refusal_; }
  const std::optional<Failure>& request_failure() const { return request_failure_; }

 private:
  // Ends the last computation and forgets it.
  net::Task<void> Restart();
  net::Task<router::Event> Try(const router::Step& step, const router::Attempt& attempt,
                               std::string_view members, bool only_prompt, conf::TimePoint now);
  net::Task<router::Event> ReadAnswer(Upstream& upstream, bool only_prompt, conf::TimePoint until);
  net::Task<void> RunBeside(router::Step step, router::Attempt& attempt, conf::TimePoint now);
  void Record(const router::Step& step, const router::Event& event, conf::TimePoint now);

  const OutgoingRequest request_;
  const PromptPrefix& prefix_;
  const Timeline& at_;
  CancelScope cancel_;  // of the computation; the client's leaving cancels it too
  std::string members_;
  std::optional<router::ReplicaId> computed_at_;
  std::optional<uint64_t> cached_;
  conf::Duration time_{};
  bool in_vain_ = false;

  bool beside_ = false;  // a task of its own is running
  net::Event ended_;
  Upstream* answer_ = nullptr;
  std::optional<router::Event> failure_;
  UpstreamRefusal refusal_;
  std::optional<Failure> request_failure_;
};

}  // namespace gateway
