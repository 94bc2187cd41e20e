#include "bench/autoscaling/fleet_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace bench::autoscaling {

FleetProgress::FleetProgress(std::string_view what) : what_(what), shown_(isatty(STDERR_FILENO) != 0) {}

FleetProgress::~FleetProgress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

std::function<bool(double)> FleetProgress::Tell() {
  return [this](double part) {
    if (!shown_) return true;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    fmt::print(stderr, "\r\033[K{}: {:.0f} %, {:.0f} s left", what_, 100 * part,
               passed.count() / part * (1 - part));
    std::fflush(stderr);
    return true;
  };
}

}  // namespace bench::autoscaling
