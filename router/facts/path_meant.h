// The path that a client most likely meant.
#pragma once

#include <string>
#include <string_view>

namespace router {

// The path of an API that an unknown path stands for, or empty: without /v1 or with a second one, as clients add it to
// their base URL or not, and with a slash at the end. A query string is ignored. Pure.
std::string PathMeant(std::string_view target);

}  // namespace router
