// The progress of a simulation: one line on a terminal that is overwritten, nothing elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace gateway::cli {

struct Advance {
  size_t over = 0;
  size_t all = 0;
  std::string_view of = "jobs";
  std::string moment;  // "day 61"; empty: unknown
};

class ProgressBar {
 public:
  ProgressBar();
  void Begin(std::string what);
  // Writes at most ten times a second.
  void Show(const Advance& advance);
  void End();  // clears the line

 private:
  bool on_terminal_;
  std::string what_;
  std::chrono::steady_clock::time_point begun_{};
  std::chrono::steady_clock::time_point shown_{};
};

// "[=====>    ]  52 %  fifo: 42769 of 82247 jobs, day 61, 9 s left"
std::string ProgressLine(const std::string& what, const Advance& advance, double elapsed_s);

}  // namespace gateway::cli
