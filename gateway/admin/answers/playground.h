// What the playground tells of a request when it has ended.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct PlaygroundSummary {
  static constexpr std::string_view kSchema = "PlaygroundSummary";

  std::string request_id;
  std::string tenant;
  std::string reason;  // as in the ledger: done, length, …
  std::optional<std::string> error;
  std::optional<std::string> replica;
  std::optional<int64_t> queue_ms;
  std::optional<int64_t> ttft_ms;
  std::optional<int64_t> duration_ms;
  uint64_t input_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t output_tokens = 0;
  std::string tokens_from;  // as in the ledger: upstream, counted, …
  int64_t cost_micro_usd = 0;
};

template <class O>
constexpr void Bind(O& o, PlaygroundSummary& summary) {
  o.Required("request_id", summary.request_id);
  o.Required("tenant", summary.tenant);
  o.Required("reason", summary.reason);
  o.Required("error", summary.error);
  o.Required("replica", summary.replica);
  o.Required("queue_ms", summary.queue_ms);
  o.Required("ttft_ms", summary.ttft_ms);
  o.Required("duration_ms", summary.duration_ms);
  o.Required("input_tokens", summary.input_tokens);
  o.Required("cached_tokens", summary.cached_tokens);
  o.Required("output_tokens", summary.output_tokens);
  o.Required("tokens_from", summary.tokens_from);
  o.Required("cost_micro_usd", summary.cost_micro_usd);
}

}  // namespace gateway::admin::answers
