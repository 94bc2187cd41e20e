#include "scheduler/plan.h"

#include "conf/words.h"

namespace scheduler {

constexpr conf::Word<ActionKind> kActions[] = {
    {"start", ActionKind::kStart}, {"preempt", ActionKind::kPreempt}, {"shrink", ActionKind::kShrink},
    {"move", ActionKind::kMove},   {"suspend", ActionKind::kSuspend}, {"stop", ActionKind::kStop}};

std::string_view Name(ActionKind kind) {
  return conf::WordOf(kActions, kind);
}

}  // namespace scheduler
