// Names the calling thread for whoever looks at the process with top, perf or a debugger.
#pragma once

#include <pthread.h>

namespace gateway {

// At most 15 characters.
inline void NameThread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

}  // namespace gateway
