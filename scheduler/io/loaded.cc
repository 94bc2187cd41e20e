#include "scheduler/io/loaded.h"

#include <fmt/format.h>

namespace scheduler::io {

std::string Visible(const std::string& text) {
  constexpr size_t kShownBytes = 400;
  std::string out;
  for (const char c : text.substr(0, kShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return text.size() > kShownBytes ? out + "..." : out;
}

void LineReport::Add(conf::Problem problem) {
  if (problems.size() >= kShown) return;
  problem.pointer = Visible(problem.pointer);
  problem.value = Visible(problem.value);
  problem.message = Visible(problem.message);
  problems.push_back(std::move(problem));
}

}  // namespace scheduler::io
