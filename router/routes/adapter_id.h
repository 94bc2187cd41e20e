// Identity of a LoRA adapter: a hash of the name that engines know it by.
#pragma once

#include <cstdint>
#include <string_view>

namespace router {

enum class AdapterId : uint64_t { kNone = 0 };

// Never kNone.
AdapterId AdapterIdOf(std::string_view name);

}  // namespace router
