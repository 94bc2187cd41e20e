// The coming events of a simulated world, in order of time.
//
// Events of one moment go by kind, then subject, so that the order never depends on when they were added.
// An event about a job carries the job's epoch; it is stale when the job has gone on to another one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "conf/time.h"

namespace scheduler::sim {

enum class EventKind : uint8_t {
  kEnds,          // a job's work is done
  kStopped,       // its grace is over
  kMoved,         // its members stand at their new places only
  kCheckpoints,   // periodic: begins to save
  kCheckpointed,  // and has saved
  kGoesIdle,      // a notebook's user leaves
  kComesBack,     // and returns
  kDomainFails,   // subject: index into the options' faults
  kNodeFails,
  kNodeIsBack,
  kDrains,      // subject: index into the options' drains
  kDrained,     // the drain is over
  kBecomesDue,  // a job's not-before
  kWake,        // a planning cycle is due, though nothing happened
};

struct Event {
  conf::TimePoint at{};
  uint32_t subject = 0;
  uint32_t epoch = 0;
  EventKind kind = EventKind::kWake;

  friend bool operator>(const Event& a, const Event& b) {
    return std::tuple(a.at, a.kind, a.subject, a.epoch) > std::tuple(b.at, b.kind, b.subject, b.epoch);
  }
};

class EventQueue {
 public:
  void Push(const Event& event) {
    heap_.push_back(event);
    std::ranges::push_heap(heap_, std::greater<>{});
  }
  Event Pop() {
    std::ranges::pop_heap(heap_, std::greater<>{});
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }
  const Event& top() const { return heap_.front(); }
  bool empty() const { return heap_.empty(); }

 private:
  std::vector<Event> heap_;
};

}  // namespace scheduler::sim
