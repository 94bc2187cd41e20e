// ModelMemory: what scaling has learned of one model, as the store keeps it: the prices of the demand law, how many
// replicas each time of the day wanted, and how long starts and wakes took.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/control/learned/cold_starts.h"
#include "gateway/control/learned/learned_starts.h"
#include "scheduler/autoscale/daily_peaks.h"
#include "scheduler/autoscale/hindsight.h"

namespace gateway::control {

struct ModelMemory {
  conf::TimePoint at{};  // of the last thing learned
  std::optional<scheduler::autoscale::Hindsight::Memory> law{};
  scheduler::autoscale::DailyPeaks::Memory peaks{};
  std::vector<LearnedStarts::Start> starts{};
  std::vector<ColdStarts::Start> cold_starts{};
  std::vector<ColdStarts::Start> wakes{};
};

// As the store keeps it.
std::string BodyOf(const ModelMemory& memory);
// DataLoss: the body is no such record.
absl::StatusOr<ModelMemory> ReadModelMemory(const std::string& model, const std::string& body);

}  // namespace gateway::control
