#include "gateway/control/jobs/unwritten.h"

#include <utility>

namespace gateway::control {

void Unwritten::Put(std::string key, std::string line) {
  Drop(key);
  const uint64_t turn = next_++;
  turns_[key] = turn;
  lines_[turn] = {std::move(key), std::move(line)};
}

bool Unwritten::Drop(const std::string& key) {
  const auto turn = turns_.find(key);
  if (turn == turns_.end()) return false;
  lines_.erase(turn->second);
  turns_.erase(turn);
  return true;
}

std::vector<Unwritten::Line> Unwritten::Take() {
  std::vector<Line> lines;
  lines.reserve(lines_.size());
  for (auto& [turn, line] : lines_) lines.push_back(std::move(line));
  lines_.clear();
  turns_.clear();
  return lines;
}

void Unwritten::PutBack(std::vector<Line> lines) {
  std::vector<Line> since = Take();
  for (Line& line : lines) Put(std::move(line.key), std::move(line.text));
  for (Line& line : since) Put(std::move(line.key), std::move(line.text));
}

std::string TextOf(const std::vector<Unwritten::Line>& lines) {
  std::string text;
  for (const Unwritten::Line& line : lines) text += line.text;
  return text;
}

}  // namespace gateway::control
