#pragma once

#include <atomic>

namespace router {

// For cells that many threads write and that do not depend on each other.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace router
