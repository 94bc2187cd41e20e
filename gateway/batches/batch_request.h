// What the body of a call that creates a batch asks for (OpenAI's API).
//
// Pure, any thread.
#pragma once

#include <string>

#include "gateway/batches/stored_batches.h"

namespace gateway::batches {

// Without the principal. An error: the first thing that is wrong, with its member.
Result<Creation> ReadCreation(const std::string& body);

}  // namespace gateway::batches
