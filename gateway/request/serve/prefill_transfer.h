// PrefillTransfer: computes one request's prompt on a prefill replica, if the pool has replicas for that.
//
// With vLLM the two steps run one after the other. The prefill replica gets the request for a single token, with
// kv_transfer_params that announce another reader; the parameters of its answer go with the request to the
// replica that answers. With SGLang both run at once. Both requests carry the prefill replica's bootstrap address
// and a random room in which the replicas meet; the prefill replica's answer is dropped. router::Attempt decides
// which replica computes the prompt, and what happens after a failure.
//
// Owner: the exchange. Thread: its shard's. It is aborted when the client leaves. It keeps at most
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

// Whether a prefill replica can compute the prompt: the request has one prompt and wants one answer, in an API for
// which engines support it.
bool CanSplitPrefill(const OutgoingRequest& request);

class PrefillTransfer {
 public:
  PrefillTransfer(const OutgoingRequest& request, const PromptPrefix& prefix, const Timeline& at);
  ~PrefillTransfer();
  PrefillTransfer(const PrefillTransfer&) = delete;
  PrefillTransfer& operator=(const PrefillTransfer&) = delete;

  // For one after the other: computes the prompt at `step.prefill` and returns the result.
  net::Task<router::Event> Compute(const router::Step& step, const router::Attempt& attempt,
                                   conf::TimePoint now);
  // How long the last computation took.
  conf::Duration time() const { return time_; }

  // For both at once: begins the computation beside the try. A success is reported to the attempt. A failure is
  // failure(), and aborts the try that was passed to SetAnswer().
  net::Task<void> Begin(const router::Step& step, router::Attempt& attempt, conf::TimePoint now);
  void SetAnswer(Upstream* answer) { answer_ = answer; }
  const std::optional<router::Event>& failure() const { return failure_; }
  // Aborts a computation that runs beside a try and is no longer needed.
  void Drop() {
    if (beside_) cancel_.Cancel();
  }
  // Waits until no computation runs; aborts one that does not end soon.
  net::Task<void> Finish();
  // Forgets the last computation: the next try does not use it.
  void Forget();

  // Members to add to the request for the answering replica; empty: it gets the client's own request.
  std::string_view members() const { return members_; }
  // The number of prompt tokens that were cached at the replica that computed the prompt.
  uint64_t CachedOf(const api::Usage& answer) const;
  // The prefill replica that computed the prompt of the answer; none: the answering replica did.
  std::optional<router::ReplicaId> computed_at() const { return computed_at_; }
  // Whether a prefill replica computed the prompt, but did not say where it can be fetched.
  bool params_missing() const { return params_missing_; }

  // The answer for the client, if the request itself is at fault.
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
  CancelScope cancel_;  // of the computation; also cancelled when the client leaves
  std::string members_;
  std::optional<router::ReplicaId> computed_at_;
  std::optional<uint64_t> cached_;
  conf::Duration time_{};
  bool params_missing_ = false;

  bool beside_ = false;  // a computation runs beside the try, in its own task
  net::Event ended_;
  Upstream* answer_ = nullptr;
  std::optional<router::Event> failure_;
  UpstreamRefusal refusal_;
  std::optional<Failure> request_failure_;
};

}  // namespace gateway
