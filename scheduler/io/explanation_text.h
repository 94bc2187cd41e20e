// An explanation for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "scheduler/cycle/explain.h"

namespace scheduler::io {

// Plain sentences, the cause first, with numbers and units.
std::vector<std::string> InWords(const Explanation& explanation);

// One JSON object with stable keys.
std::string WriteExplanation(const Explanation& explanation);

}  // namespace scheduler::io
