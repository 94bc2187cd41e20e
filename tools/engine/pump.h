// Pump: runs the engine's steps when they are due, and wakes the jobs with new tokens.
//
// Loop's thread. A step that is due at once (a profile without delays) runs inside Kick, up to a bound, so
// that a request to the instant preset is answered without a trip through the event loop.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "gateway/net/loop.h"
#include "tools/engine/engine.h"

namespace tidegate_engine {

class Pump {
 public:
  Pump(gateway::net::Loop& loop, Engine& engine) : engine_(engine), timer_(loop.io) {}

  // Call it after every change that may move the next step.
  void Kick();
  void Stop();
  // Called after steps, before the jobs with new tokens are woken.
  void OnStepped(std::function<void()> then) { on_stepped_ = std::move(then); }

 private:
  void RunDue();
  void WakeJobs();
  void Arm();

  Engine& engine_;
  boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                    boost::asio::wait_traits<std::chrono::steady_clock>,
                                    gateway::net::IoContext::executor_type>
      timer_;
  std::function<void()> on_stepped_ = [] {};
  std::vector<Job*> advanced_;
  std::vector<Job*> waking_;
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace tidegate_engine
