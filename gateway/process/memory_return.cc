#include "gateway/process/memory_return.h"

#include <malloc.h>

#include <algorithm>

#include "gateway/net/off_loop.h"

namespace gateway {
namespace {

constexpr size_t kCrowd = 256;

}  // namespace

void MemoryReturn::Opened() {
  most_ = std::max(most_, ++open_);
}

void MemoryReturn::Closed() {
  --open_;
  if (running_ || most_ < kCrowd || open_ > most_ / 4) return;
  most_ = open_;
  running_ = true;
  loop_.tasks.Spawn(GiveBack());
}

net::Task<void> MemoryReturn::GiveBack() {
  co_await net::OffLoop(loop_, [] { return malloc_trim(0); });
  running_ = false;
}

}  // namespace gateway
