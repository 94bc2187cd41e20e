// The decisions of a planning cycle, with their reasons, for people, the ledger and the launcher alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "scheduler/holding.h"

namespace scheduler {

// Why: a stable code and a sentence that names the numbers.
struct Reason {
  std::string code;  // "fits", "backfilled", "preempted", "reclaimed", "overran", "defragmented", …
  std::string text;

  friend bool operator==(const Reason&, const Reason&) = default;
};

enum class ActionKind : uint8_t {
  kStart,    // `members` start; of an elastic job that runs, more of them
  kPreempt,  // the whole job stops after `grace` and waits again
  kShrink,   // `members` of an elastic job stop after `grace`
  kMove,     // `members` start at their new places, then stop at the old ones (make before break)
  kSuspend,  // a notebook gives its devices back and keeps its disk
  kStop,     // over its limit, or failed beyond its restart budget
};

struct Action {
  ActionKind kind = ActionKind::kStart;
  std::string job;
  std::vector<MemberAt> members;  // kStart, kMove: where to; kShrink: which
  conf::Duration grace{};
  Reason why;

  friend bool operator==(const Action&, const Action&) = default;
};

// Nodes that are kept for a job that waits.
struct Reserved {
  std::string job;
  conf::TimePoint start{};
  conf::TimePoint end{};  // expected
  std::vector<NodeId> nodes{};
  std::vector<MemberAt> members{};  // exact places, if other jobs are stopped for it

  friend bool operator==(const Reserved&, const Reserved&) = default;
};

struct Plan {
  uint64_t based_on = 0;  // the snapshot's version
  std::vector<Action> actions;
  std::vector<std::pair<std::string, Reason>> waiting;  // examined jobs that stay pending, and why; bounded
  std::vector<Reserved> reserved;                       // in the order in which they were made
};

std::string_view Name(ActionKind kind);

}  // namespace scheduler
