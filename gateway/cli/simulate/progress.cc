#include "gateway/cli/simulate/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace gateway::cli {
namespace {

constexpr size_t kWidth = 24;
constexpr auto kBetween = std::chrono::milliseconds(100);

}  // namespace

std::string ProgressLine(const std::string& what, const Advance& advance, double elapsed_s) {
  const double part =
      advance.all == 0 ? 0 : static_cast<double>(advance.over) / static_cast<double>(advance.all);
  const auto filled = static_cast<size_t>(part * kWidth);
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  std::string line = fmt::format("[{}] {:3.0f} %  {}: {} of {} {}", bar, 100 * part, what, advance.over,
                                 advance.all, advance.of);
  if (!advance.moment.empty()) line += ", " + advance.moment;
  if (part > 0.01) line += fmt::format(", {:.0f} s left", elapsed_s * (1 - part) / part);
  return line;
}

ProgressBar::ProgressBar() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::Begin(std::string what) {
  what_ = std::move(what);
  begun_ = std::chrono::steady_clock::now();
  shown_ = {};
}

void ProgressBar::Show(const Advance& advance) {
  if (!on_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kBetween) return;
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - begun_).count();
  fmt::print(stderr, "\r\x1b[K{}", ProgressLine(what_, advance, elapsed));
  std::fflush(stderr);
}

void ProgressBar::End() {
  if (on_terminal_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace gateway::cli
