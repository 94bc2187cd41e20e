// A program that a test starts: its output goes to a file, and it ends with the object, or with the test
// process if that is killed. One that dies of a signal that the test did not send, or is told off by a
// sanitizer, fails the test.
//
// Make it on the test's main thread: where setpriv is installed, the child dies with the thread that made it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/sanitized.h"

namespace tests {

using std::chrono::milliseconds;

class ChildProcess {
 public:
  // `words[0]` is the program. Both outputs are appended to the file `output`.
  ChildProcess(std::vector<std::string> words, std::string output);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // The status as waitpid tells it; nothing when it runs still. Reaps once, answers the same ever after.
  std::optional<int> Wait(milliseconds patience);
  bool Running() { return !Wait(milliseconds(0)); }

  // All that it has written so far.
  std::string Output() const;
  // The first line that holds `sign`; empty when it did not come in time, or the program ended.
  std::string WaitForLine(std::string_view sign, milliseconds patience);

  // Of its own memory, what is in RAM, in bytes; files that it maps are not counted.
  size_t ResidentBytes() const;
  // How often threads whose names begin with `prefix` have waited so far: their voluntary context switches.
  // Unlike time, other programs on the machine do not add to it.
  uint64_t Waits(std::string_view prefix) const;

 private:
  const std::string output_;
  size_t before_ = 0;  // what stood in the file when it began
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::set<int> sent_;  // signals
};

// Polls `condition` until it holds; false when it does not within `patience`.
template <class Condition>
bool Within(milliseconds patience, Condition condition);

void Pause(milliseconds pause);

template <class Condition>
bool Within(milliseconds patience, Condition condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    Pause(milliseconds(2));
  }
  return true;
}

}  // namespace tests
