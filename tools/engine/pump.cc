#include "tools/engine/pump.h"

#include <algorithm>
#include <utility>

#include "gateway/net/clock.h"

namespace tidegate_engine {
namespace {

constexpr int kStepsAtOnce = 4096;
// Steps that are late by less count as on time, so that timer latency does not slow the engine down.
constexpr conf::Duration kForgivenDelay = std::chrono::milliseconds(50);

}  // namespace

void Pump::Kick() {
  if (running_ || stopped_) return;  // called by a job that is being woken: the loop below sees the change
  running_ = true;
  RunDue();
  running_ = false;
  Arm();
}

void Pump::RunDue() {
  int steps = 0;
  do {
    conf::TimePoint now = gateway::net::Now();
    for (; steps < kStepsAtOnce && engine_.NextStep() <= now; ++steps) {
      engine_.Step(std::max(engine_.NextStep(), now - kForgivenDelay), advanced_);
    }
    on_stepped_();
    WakeJobs();
  } while (steps < kStepsAtOnce && engine_.NextStep() <= gateway::net::Now());
}

void Pump::WakeJobs() {
  std::swap(advanced_, waking_);
  for (Job* job : waking_) job->advanced = false;
  for (Job* job : waking_) {
    if (job->request.stream || job->finished() || job->endless) job->progress.Set();
  }
  waking_.clear();
}

void Pump::Arm() {
  conf::TimePoint due = engine_.NextStep();
  if (due == conf::TimePoint::max()) return;
  timer_.expires_after(std::max(due - gateway::net::Now(), conf::Duration::zero()));
  timer_.async_wait([this](const gateway::net::ErrorCode& error) {
    if (!error) Kick();
  });
}

void Pump::Stop() {
  stopped_ = true;
  timer_.cancel();
}

}  // namespace tidegate_engine
