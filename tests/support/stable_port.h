// A port without a listener, below those that the system gives to connections, so that it stays free while
// its server is down.
#pragma once

#include <cstdint>

namespace tests {

uint16_t StablePort();

}  // namespace tests
