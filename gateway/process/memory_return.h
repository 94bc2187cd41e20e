// MemoryReturn: gives memory back to the system after a crowd of connections. The allocator keeps what a thread has freed for
// that thread; after 2,000 streams that is tens of megabytes.
//
// Owner: a shard's server. Thread: the shard's. Giving back takes milliseconds, on a thread of its own, while allocations wait:
// so it happens only after a crowd, when most of it has left.
#pragma once

#include <cstddef>

#include "gateway/net/loop.h"

namespace gateway {

class MemoryReturn {
 public:
  explicit MemoryReturn(net::Loop& loop) : loop_(loop) {}

  void Opened();
  void Closed();

 private:
  net::Task<void> GiveBack();

  net::Loop& loop_;
  size_t open_ = 0;
  size_t most_ = 0;  // since memory was given back
  bool running_ = false;
};

}  // namespace gateway
