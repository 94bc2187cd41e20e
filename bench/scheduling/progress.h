// Progress of a long measurement, on stderr: one line that is rewritten, with the remaining time; only
// on a terminal.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace bench::scheduling {

class Progress {
 public:
  Progress(std::string what, size_t steps);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Step();   // from any thread
  void Clear();  // wipes the line until the next step, for what is printed meanwhile

 private:
  std::mutex mutex_;
  std::string what_;
  size_t steps_;
  size_t done_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace bench::scheduling
