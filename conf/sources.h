// Sources: what a configuration takes from outside its text: environment variables, small files and folders.
// They are passed in, so that tests and the fuzzer never touch the machine.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace conf {

struct Sources {
  std::function<std::optional<std::string>(const std::string& name)> environment;
  std::function<absl::StatusOr<std::string>(const std::string& path)> file;
  // The names of a folder's files, in any order.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& path)> folder =
      [](const std::string&) { return absl::NotFoundError("there are no folders"); };
};

}  // namespace conf
