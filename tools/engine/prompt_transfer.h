// PromptTransfer: computed prompts on their way between this engine and others (handover.h says how).
//
// Owner: the Service. One thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <optional>
#include <string>

#include "gateway/net/loop.h"
#include "tools/engine/handover.h"
#include "tools/engine/job.h"
#include "tools/engine/reply.h"

namespace tidegate_engine {

class PromptTransfer {
 public:
  // `id` names this engine to the others. `stats` outlives this.
  PromptTransfer(gateway::net::Loop& loop, HandoverOptions options, uint32_t block_size, std::string id,
                 Stats& stats);

  // The address at which other engines reach this one.
  void SetAddress(std::string host, uint16_t port);

  // The error for a request without the parameters that this engine's role needs.
  std::optional<ApiError> Check(const Generation& request) const;
  // The engine only computes prompts: its answers are one token that no client reads (SGLang's prefill).
  bool OnlyPrefills() const {
    return options_.role == Role::kPrefill && options_.kind == HandoverKind::kBootstrap;
  }

  // Waits for the prompt that another engine computes for the job, and notes how many of its tokens came. The
  // wait also ends when the client leaves. An error: the prompt cannot be had, nor computed here.
  Task<std::optional<ApiError>> Receive(Exchange& exchange, Job& job);
  // Makes the job's prompt available to other engines; in a room, waits until another engine has taken it.
  Task<std::optional<ApiError>> Offer(Exchange& exchange, Job& job);
  // Answers another engine that asks for a prompt: {"engine","block"} or {"room"}.
  Task<void> HandOver(Exchange& exchange);

  const HandoverCounts& counts() const { return counts_; }
  size_t held() const { return held_.size(); }

 private:
  std::shared_ptr<Room> RoomOf(uint64_t id);
  void Hold(uint32_t tokens, Job& job);
  Task<std::optional<uint32_t>> Fetch(Exchange& exchange, const HandoverRequest& request);

  gateway::net::Loop& loop_;
  const HandoverOptions options_;
  const uint32_t block_size_;
  const std::string id_;
  Stats& stats_;
  std::string host_;
  uint16_t port_ = 0;
  Held held_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Room>> rooms_;  // of running requests
  HandoverCounts counts_;
};

}  // namespace tidegate_engine
