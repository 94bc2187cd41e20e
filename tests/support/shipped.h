// The files of conf/ as they ship, wherever in the tree a test is started.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/support/temp_dir.h"

namespace tests {

inline std::filesystem::path ConfDirectory() {
  for (std::filesystem::path at = std::filesystem::current_path();; at = at.parent_path()) {
    if (std::filesystem::exists(at / "conf" / "tidegate.yaml")) return at / "conf";
    if (at == at.root_path()) return {};
  }
}

// `name` below conf/, or a whole path.
inline std::string ReadShipped(const std::filesystem::path& name) {
  const std::filesystem::path path = ConfDirectory() / name;
  if (!std::filesystem::exists(path)) throw std::runtime_error(path.string() + " does not exist");
  return ReadFile(path.string());
}

}  // namespace tests
