// `tidegate simulate` was one command whose options chose what it did. What such a command line is now. Pure.
#pragma once

#include <string>
#include <vector>

namespace gateway::cli {

// `words` stand behind `tidegate simulate`. Empty: they are not of the old spelling.
std::string NewSpelling(const std::vector<std::string>& words);

}  // namespace gateway::cli
