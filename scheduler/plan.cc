#include "scheduler/plan.h"

namespace scheduler {

std::string_view Name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kStart:
      return "start";
    case ActionKind::kPreempt:
      return "preempt";
    case ActionKind::kShrink:
      return "shrink";
    case ActionKind::kMove:
      return "move";
    case ActionKind::kSuspend:
      return "suspend";
    case ActionKind::kStop:
      return "stop";
  }
  return "";
}

}  // namespace scheduler
