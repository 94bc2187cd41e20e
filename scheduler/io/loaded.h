// The result of reading a text: the value, or everything that is wrong with it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/problem.h"

namespace scheduler::io {

// For a text that is accepted as a whole or not at all: there is a value exactly when there are no problems.
template <class T>
struct Loaded {
  std::optional<T> value{};
  std::vector<conf::Problem> problems{};
};

// Bytes from outside, for a message: cut; control characters and bytes that are not ASCII are shown as
// numbers.
std::string Visible(const std::string& text);

// For a text in lines, of which wrong ones can be left out. Problems name file and line; the first kShown are
// kept, all of them are counted.
struct LineReport {
  static constexpr size_t kShown = 100;

  size_t lines = 0;     // with something on them, the header not counted
  size_t left_out = 0;  // of those
  std::vector<conf::Problem> problems{};

  void Add(conf::Problem problem);
};

}  // namespace scheduler::io
