#include "scheduler/snapshot.h"

namespace scheduler {

std::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "pending";
    case Phase::kRunning:
      return "running";
    case Phase::kStopping:
      return "stopping";
    case Phase::kSuspended:
      return "suspended";
  }
  return "";
}

std::string_view Name(AfterStop after) {
  switch (after) {
    case AfterStop::kWaits:
      return "waits";
    case AfterStop::kSuspends:
      return "suspends";
    case AfterStop::kLeaves:
      return "leaves";
  }
  return "";
}

}  // namespace scheduler
