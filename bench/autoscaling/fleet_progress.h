// A line of progress for a simulated fleet on stderr, with the remaining time; only on a terminal.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace bench::autoscaling {

class FleetProgress {
 public:
  explicit FleetProgress(std::string_view what);
  ~FleetProgress();  // wipes the line
  FleetProgress(const FleetProgress&) = delete;
  FleetProgress& operator=(const FleetProgress&) = delete;

  // For SimulateFleet.
  std::function<bool(double)> Tell();

 private:
  const std::string what_;
  const bool shown_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace bench::autoscaling
