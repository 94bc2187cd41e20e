#include "scheduler/snapshot.h"

#include "conf/words.h"

namespace scheduler {

constexpr conf::Word<Phase> kPhases[] = {{"pending", Phase::kPending},
                                         {"running", Phase::kRunning},
                                         {"stopping", Phase::kStopping},
                                         {"suspended", Phase::kSuspended}};

conf::Words<Phase> WordsOf(Phase) {
  return kPhases;
}

std::string_view Name(Phase phase) {
  return conf::WordOf(kPhases, phase);
}

constexpr conf::Word<AfterStop> kAfterStops[] = {
    {"waits", AfterStop::kWaits}, {"suspends", AfterStop::kSuspends}, {"leaves", AfterStop::kLeaves}};

conf::Words<AfterStop> WordsOf(AfterStop) {
  return kAfterStops;
}

std::string_view Name(AfterStop after) {
  return conf::WordOf(kAfterStops, after);
}

}  // namespace scheduler
