// Driving: a ScalingLoop for each term of this gateway's lead, made when the term begins and closed when it ends.
// Running workloads continue: the next leader takes them over.
//
// A term that has ended early is closed before the next one of this gateway begins, so no two loops of one process
// call the launcher.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "gateway/control/lead/leadership.h"
#include "gateway/control/scaling_loop.h"
#include "gateway/net/loop.h"

namespace gateway::control {

class Driving {
 public:
  // Opens the launcher and makes the loop of one term.
  using Make = std::function<absl::StatusOr<std::unique_ptr<ScalingLoop>>(uint64_t epoch)>;

  Driving(net::Loop& loop, Leadership& leadership, Make make);

  // A term has begun or ended; between two terms, loop() is null.
  std::function<void()> on_change = [] {};

  // Where this gateway is alone: makes the loop at once, or says why it cannot.
  absl::Status Open();
  // From now on the loop of Open() runs, and each later term makes a loop.
  void Start();
  // Null while another gateway leads.
  ScalingLoop* loop() { return loop_of_term_.get(); }
  const ScalingLoop* loop() const { return loop_of_term_.get(); }
  // `keep`: running workloads stay. Gives the lead back.
  net::Task<void> Close(bool keep);

 private:
  void Begin();
  net::Task<void> End(std::unique_ptr<ScalingLoop> ended);
  void DropEnded();

  net::Loop& loop_;
  Leadership& leadership_;
  const Make make_;
  net::Sleep pause_;
  std::unique_ptr<ScalingLoop> loop_of_term_;
  // Closed loops, until no call that began in their term can still use them.
  std::deque<std::pair<conf::TimePoint, std::unique_ptr<ScalingLoop>>> ended_;
  size_t ending_ = 0;
  bool retrying_ = false;
  bool started_ = false;
  bool closed_ = false;
};

}  // namespace gateway::control
