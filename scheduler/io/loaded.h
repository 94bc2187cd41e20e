// What reading a text gives: the value, or everything that is wrong with it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/problem.h"

namespace scheduler::io {

// Of a text that is taken as a whole or not at all: there is a value exactly when there are no problems.
template <class T>
struct Loaded {
  std::optional<T> value{};
  std::vector<conf::Problem> problems{};
};

// Another's bytes, for a message: cut, and what would steer a terminal or is no ASCII is shown by its number.
std::string Visible(const std::string& text);

// Of a text in lines, of which a wrong one can be left out. Problems name file and line; the first kShown are
// kept, all of them are counted.
struct LineReport {
  static constexpr size_t kShown = 100;

  size_t lines = 0;     // with something on them, the header not counted
  size_t left_out = 0;  // of those
  std::vector<conf::Problem> problems{};

  void Add(conf::Problem problem);
};

}  // namespace scheduler::io
