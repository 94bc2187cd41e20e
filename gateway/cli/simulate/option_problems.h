// The problems of the options and files of `tidegate simulate`: every reader adds its problems to one list; and the
// report of rows that were left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "conf/time.h"
#include "scheduler/io/loaded.h"

namespace gateway::cli {

// The whole file, of at most 1 GiB, or a problem.
std::optional<std::string> ReadFile(const std::string& path, std::vector<conf::Problem>& problems);

// A problem of an option; the option takes the place of a file name.
void Refuse(std::vector<conf::Problem>& problems, std::string_view option, std::string_view value,
            std::string message);
// Adds the problems of a reader; true if there were none.
bool TakeProblems(std::vector<conf::Problem>& of, std::vector<conf::Problem>& problems);
// Reads the duration of an option; an empty text leaves `out` as it is.
void ReadTime(std::string_view option, const std::string& text, conf::Duration& out,
              std::vector<conf::Problem>& problems);

// Adds a problem unless the output of the option can be written; an empty path is none.
void CheckWritable(std::string_view option, const std::string& path, std::vector<conf::Problem>& problems);

// Prints the skipped rows to standard error, the first ones each with its problem. False: `strict` refuses them,
// and that is printed, too.
bool PrintLeftOut(const scheduler::io::LineReport& report, bool strict);

}  // namespace gateway::cli
