// A program that a test starts: its output goes to a file, and it ends with the object, or with the test
// process if that is killed. A program that dies of a signal which the test did not send, or that a sanitizer
// reports, fails the test.
//
// Create it on the test's main thread: where setpriv is installed, the child dies with the thread that made
// it.
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
  // It may die of that signal.
  void Expect(int signal) { sent_.insert(signal); }
  // The status as waitpid returns it; nothing while it runs. Reaps once, and returns the same status ever
  // after.
  std::optional<int> Wait(milliseconds patience);
  bool Running() { return !Wait(milliseconds(0)); }

  // All that it has written so far.
  std::string Output() const;
  // The first line that contains `sign`; empty if it did not come in time, or the program ended.
  std::string WaitForLine(std::string_view sign, milliseconds patience);

  // Its own memory that is in RAM, in bytes, without mapped files.
  size_t ResidentBytes() const;
  // The number of waits so far (voluntary context switches) of threads whose names begin with `prefix`.
  // Unlike time, other programs on the machine do not add to it.
  uint64_t Waits(std::string_view prefix) const;

 private:
  const std::string output_;
  size_t before_ = 0;  // size of the file at the start
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
