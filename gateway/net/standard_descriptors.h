// Descriptors 0 to 2 of a program: a file that it opens must never get the number of its output, or what it
// prints would be written into that file.
#pragma once

namespace gateway::net {

// Opens those that the caller of the program has closed, on /dev/null and the wrong way round, so that
// reading or writing them fails as it would have. The first thing a program does.
void OpenStandardDescriptors();

}  // namespace gateway::net
