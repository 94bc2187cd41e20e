// What the readers' tests share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "conf/problem.h"
#include "tests/support/shipped.h"

namespace scheduler::io::testing {

inline std::vector<std::string> Texts(const std::vector<conf::Problem>& problems) {
  std::vector<std::string> out;
  for (const conf::Problem& problem : problems) out.push_back(conf::ToString(problem));
  return out;
}

using tests::ConfDirectory;
using tests::ReadShipped;

inline std::vector<std::filesystem::path> Shipped(const std::string& directory,
                                                  const std::string& extension) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(ConfDirectory() / directory)) {
    if (entry.path().extension() == extension) out.push_back(entry.path());
  }
  return out;
}

}  // namespace scheduler::io::testing
