// Leadership: asks the store for the lead and keeps it (LeadState decides when), and reports when a term begins and
// ends. At most one gateway of a store leads; it alone starts and stops workloads.
//
// A gateway that has its store to itself leads from its start to its end, and asks once, for its epoch.
//
// Owner: the Process; stopped, and its last ask ended, before it is destroyed. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gateway/control/lead/lead_state.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway::control {

class Leadership final : private net::Alarm {
 public:
  struct Options {
    std::string holder;  // unique: no other process has it, not even a later one of this gateway
    std::string about;   // the leader's name, as shown to others
    bool alone = true;   // no other process uses the store
    LeadTimes times{};
  };

  // Both must outlive it.
  Leadership(net::Loop& loop, store::Store& store, Options options);

  // A term has begun, or ended; between two terms it has always ended.
  std::function<void(uint64_t epoch)> on_begin = [](uint64_t) {};
  std::function<void()> on_end = [] {};

  // Asks once, and from then on by itself.
  net::Task<void> Start();
  void Stop();
  // Gives the lead back, so that another gateway need not wait for its end. Drives no more from the call on.
  net::Task<void> Resign();

  // The epoch of the present term, for fenced writes; 0: this gateway may not drive now. A gateway that has its store
  // to itself may drive with the epoch 0, too: its writes are not fenced then.
  uint64_t epoch() const;
  bool leads() const;
  // OK: this gateway leads, and the store has confirmed it within the last second.
  net::Task<absl::Status> Confirm();
  // A write of that epoch was refused, since another gateway leads.
  void Deposed(uint64_t epoch);

  bool alone() const { return options_.alone; }
  // The leader's description of itself; empty: no leader is known.
  const std::string& leader() const { return leader_; }

 private:
  void OnAlarm() override;
  net::Task<void> Ask();
  // Tells of a term that has begun or ended, and sets the alarm.
  void Update();
  // Wakes the tasks that wait for the end of an ask.
  void Wake();

  net::Loop& loop_;
  store::Store& store_;
  const Options options_;
  LeadState state_;
  uint64_t term_ = 0;  // the epoch of the term that was told of
  std::string leader_;
  bool sole_ = false;  // alone, and started
  bool stopped_ = false;
  uint64_t under_way_ = 0;   // the latest ask, until it has ended; 0: none
  conf::TimePoint asked_{};  // when it was sent
  std::vector<net::Event*> waiting_;
};

}  // namespace gateway::control
