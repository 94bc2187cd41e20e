// What each error code means, in a sentence for people: the reference page of error codes shows it.
#pragma once

#include <string_view>

#include "gateway/api/error.h"

namespace gateway::api {

std::string_view MeaningOf(Code code);

}  // namespace gateway::api
