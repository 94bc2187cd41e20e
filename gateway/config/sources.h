// The process's environment and file system, for references in a configuration.
#pragma once

#include "conf/sources.h"

namespace gateway {

// Reads only regular files of at most 4 MiB, so that a FIFO or a device cannot block or fill the process.
conf::Sources SystemSources();

}  // namespace gateway
