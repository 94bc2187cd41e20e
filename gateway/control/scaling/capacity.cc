#include "gateway/control/scaling/capacity.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/engine/presets.h"

namespace gateway::control {
namespace {

constexpr const char* kFirstGuess = "llama-3.1-8b-h100";
constexpr double kEnoughAnswers = 20;

}  // namespace

CapacityEstimate EstimateCapacity(const std::string& preset,
                                  std::span<const router::EngineSignals* const> engines,
                                  conf::TimePoint now) {
  CapacityEstimate out;
  out.by = preset.empty() ? "a first guess" : fmt::format("preset {}", preset);
  const auto profile = scheduler::engine::FindPreset(preset.empty() ? kFirstGuess : preset);
  if (profile) out.capacity = scheduler::autoscale::CapacityOf(*profile);

  double prefill = 0;
  double measured = 0;
  double max_running = 0;
  double kv_tokens = 0;
  router::SpeedTotals sum;
  for (const router::EngineSignals* engine : engines) {
    const router::ReplicaSignals signals = engine->Read(now);
    if (signals.rate_measured && signals.prefill_rate > 0) {
      prefill += signals.prefill_rate;
      ++measured;
    }
    max_running = std::max(max_running, signals.max_running);
    kv_tokens = std::max(kv_tokens, engine->kv_tokens());
    const router::SpeedTotals tally = engine->totals();
    sum.answers += tally.answers;
    sum.token_seconds += tally.token_seconds;
    sum.token_requests += tally.token_requests;
  }
  if (max_running > 0) out.capacity.max_running = max_running;
  if (kv_tokens > 0) out.capacity.kv_tokens = kv_tokens;
  const bool paced = sum.answers >= kEnoughAnswers;
  if (measured > 0) out.capacity.prefill_token = measured / prefill;
  if (paced) {
    const double step = sum.token_seconds / sum.answers;
    const double batch = sum.token_requests / sum.answers;
    out.capacity.step_base = std::max(step - batch * out.capacity.step_sequence, 0.0);
  }
  if (measured > 0 && paced) out.by = "measurements";
  return out;
}

}  // namespace gateway::control
