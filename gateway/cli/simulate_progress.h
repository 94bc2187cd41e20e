// How far a simulation has come: one line that is written over, on a terminal only.
#pragma once

#include <chrono>
#include <string>

#include "scheduler/sim/world.h"

namespace gateway::cli {

class ProgressBar {
 public:
  ProgressBar();
  void Begin(std::string what);
  // Writes at most ten times a second.
  void Show(const scheduler::sim::Progress& progress);
  void End();  // clears the line

 private:
  bool on_terminal_;
  std::string what_;
  std::chrono::steady_clock::time_point begun_{};
  std::chrono::steady_clock::time_point shown_{};
};

// "[=====>    ]  52 %  fifo: 42769 of 82247 jobs, day 61, 9 s left"
std::string ProgressLine(const std::string& what, const scheduler::sim::Progress& progress, double elapsed_s);

}  // namespace gateway::cli
