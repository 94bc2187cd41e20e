// Sampler: readings of one tool, taken once an interval on a thread of its own.
//
// A driver may hang within a call, for minutes or for good. Nobody waits for it: Latest() returns the readings
// taken last, with their time, and a sampler whose thread hangs is given up at its end. The thread keeps what it
// uses alive.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "conf/time.h"
#include "plugins/devices/reading.h"

namespace plugins::devices {

class Sampler {
 public:
  // `name`: of the tool, and of the thread (at most 15 characters). `read` is called on the thread alone, and is
  // destroyed there. `interval` is from the begin of a reading to the begin of the next one.
  Sampler(std::string name, std::function<Readings()> read, conf::Duration interval);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  const std::string& name() const { return name_; }
  // The last readings, which may be old; never null. Any thread.
  std::shared_ptr<const Readings> Latest() const;
  // When the call that is under way began; absent: none is under way. Any thread.
  std::optional<conf::TimePoint> busy_since() const;

 private:
  struct Shared;
  static void Run(std::shared_ptr<Shared> shared, std::function<Readings()> read);

  const std::string name_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace plugins::devices
