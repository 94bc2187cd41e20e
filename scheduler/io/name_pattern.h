// Many names in one: "gpu-{0001..0064}" is gpu-0001, gpu-0002, … gpu-0064. A name without braces is itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace scheduler::io {

class NamePattern {
 public:
  // Absent for braces without an ascending range, for more than 10^6 names, and for more than 256 bytes.
  static std::optional<NamePattern> Parse(std::string_view text);

  size_t count() const { return static_cast<size_t>(last_ - first_) + 1; }
  std::string At(size_t index) const;

 private:
  std::string prefix_;
  std::string suffix_;
  bool is_range_ = false;
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  size_t width_ = 0;  // digits, zeros in front
};

}  // namespace scheduler::io
