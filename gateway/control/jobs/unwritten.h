// Unwritten: lines of the jobs' journal that wait for the disk, in the order in which they came to be.
//
// Of what goes by one key only the last line is kept: while the disk takes nothing there is one line for each
// job, however often it changes.
//
// Pure. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gateway::control {

class Unwritten {
 public:
  // Instead of a line of this key that waits, if there is one.
  void Put(std::string key, std::string line);
  // False: none of this key waits.
  bool Drop(const std::string& key);

  struct Line {
    std::string key;
    std::string text;
  };
  // All of them; none waits any more.
  std::vector<Line> Take();
  // Those that could not be written wait again, before those that came since.
  void PutBack(std::vector<Line> lines);

 private:
  std::map<uint64_t, Line> lines_;  // by turn
  std::map<std::string, uint64_t> turns_;
  uint64_t next_ = 0;
};

std::string TextOf(const std::vector<Unwritten::Line>& lines);

}  // namespace gateway::control
