// The problem of a file that cannot be read.
#pragma once

#include <string>
#include <string_view>

#include "conf/problem.h"

namespace conf {

// `why` is a message that names the path, such as "cannot open a.yaml: Permission denied". Since a problem names its
// file already, the message says "it" instead.
Problem FileProblem(std::string_view path, std::string_view why);

}  // namespace conf
