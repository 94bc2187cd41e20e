#include "scheduler/snapshot.h"

#include "conf/words.h"

namespace scheduler {

constexpr conf::Word<Phase> kPhases[] = {{"pending", Phase::kPending},
                                         {"running", Phase::kRunning},
                                         {"stopping", Phase::kStopping},
                                         {"suspended", Phase::kSuspended}};

std::string_view Name(Phase phase) {
  return conf::WordOf(kPhases, phase);
}

constexpr conf::Word<AfterStop> kAfterStops[] = {
    {"waits", AfterStop::kWaits}, {"suspends", AfterStop::kSuspends}, {"leaves", AfterStop::kLeaves}};

std::string_view Name(AfterStop after) {
  return conf::WordOf(kAfterStops, after);
}

}  // namespace scheduler
