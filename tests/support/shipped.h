// The files of conf/ as they ship, wherever a test is started from within the tree.
#pragma once

#include <filesystem>
#include <string>

#include "conf/sources.h"

namespace tests {

inline std::filesystem::path ConfDirectory() {
  for (std::filesystem::path at = std::filesystem::current_path();; at = at.parent_path()) {
    if (std::filesystem::exists(at / "conf" / "tidegate.yaml")) return at / "conf";
    if (at == at.root_path()) return {};
  }
}

// `name` below conf/, or a whole path.
inline std::string ReadShipped(const std::filesystem::path& name) {
  return conf::SystemSources().file((ConfDirectory() / name).string()).value();
}

}  // namespace tests
