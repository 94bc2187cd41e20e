// The meaning of each error code, in one sentence: for the reference page of error codes.
#pragma once

#include <string_view>

#include "gateway/api/error.h"

namespace gateway::api {

std::string_view MeaningOf(Code code);

}  // namespace gateway::api
