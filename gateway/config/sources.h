// The process's environment and file system, for what a configuration refers to.
#pragma once

#include "conf/sources.h"

namespace gateway {

// Reads only regular files of at most 4 MiB, so that a FIFO or a device cannot block or fill the process.
conf::Sources SystemSources();

}  // namespace gateway
