// What a thread says of itself to the system.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gateway {

// The thread's name in top, perf and debuggers. At most 15 characters.
inline void NameThread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

// Makes the calling thread step back where it shares a core with a shard. 0 to 19, as nice(1).
inline void YieldToShards(int nice) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
}

}  // namespace gateway
