#include "plugins/devices/sampler.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "gateway/net/clock.h"

namespace plugins::devices {

struct Sampler::Shared {
  Shared(std::string of, conf::Duration every) : name(std::move(of)), interval(every) {}
  const std::string name;
  const conf::Duration interval;
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Readings> latest = std::make_shared<Readings>();
  std::optional<conf::TimePoint> busy;
  bool stops = false;
};

Sampler::Sampler(std::string name, std::function<Readings()> read, conf::Duration interval)
    : name_(std::move(name)), shared_(std::make_shared<Shared>(name_, interval)) {
  // Detached: joining it would wait for a driver.
  std::thread(Run, shared_, std::move(read)).detach();
}

// A thread that is between two readings ends at once; the end of the process must not meet it in a driver that
// answers. One that hangs is left behind.
Sampler::~Sampler() {
  std::unique_lock lock(shared_->mutex);
  shared_->stops = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, std::chrono::milliseconds(200), [this] { return !shared_->busy; });
}

void Sampler::Run(std::shared_ptr<Shared> shared, std::function<Readings()> read) {
  pthread_setname_np(pthread_self(), shared->name.substr(0, 15).c_str());
  std::unique_lock lock(shared->mutex);
  while (!shared->stops) {
    const conf::TimePoint begun = gateway::net::Now();
    shared->busy = begun;
    lock.unlock();
    auto readings = std::make_shared<Readings>(read());
    readings->at = gateway::net::Now();
    lock.lock();
    shared->busy.reset();
    shared->latest = std::move(readings);
    shared->changed.notify_all();
    const conf::Duration rest = begun + shared->interval - gateway::net::Now();
    shared->changed.wait_for(lock, std::chrono::duration_cast<std::chrono::nanoseconds>(rest),
                             [&] { return shared->stops; });
  }
}

std::shared_ptr<const Readings> Sampler::Latest() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->latest;
}

std::optional<conf::TimePoint> Sampler::busy_since() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->busy;
}

}  // namespace plugins::devices
