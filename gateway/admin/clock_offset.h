// How far the process's clock is from the machine's.
#pragma once

#include "conf/time.h"

namespace gateway::admin {

// Positive: net::Now() is ahead. It is not 0 after the machine's clock was set, or the machine was suspended, since the
// start of the process. Any thread.
conf::Duration ClockOffset();

}  // namespace gateway::admin
