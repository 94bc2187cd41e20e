#pragma once

#include <atomic>

namespace router {

// Of cells that many write and each of which is true by itself.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace router
