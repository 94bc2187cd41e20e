#include "bench/scheduling/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace bench::scheduling {

Progress::Progress(std::string what, size_t steps)
    : what_(std::move(what)), steps_(steps), shown_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  Clear();
}

void Progress::Clear() {
  const std::scoped_lock lock(mutex_);
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::Step() {
  const std::scoped_lock lock(mutex_);
  ++done_;
  if (!shown_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double left = elapsed.count() / static_cast<double>(done_) * static_cast<double>(steps_ - done_);
  fmt::print(stderr, "\r\033[K{}: {}/{}, {:.0f} s left", what_, done_, steps_, left);
  std::fflush(stderr);
}

}  // namespace bench::scheduling
