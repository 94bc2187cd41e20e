// SHA-256 with its state on the stack: no allocation, cannot fail. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plugins::auth {

using Digest = std::array<uint8_t, 32>;

// The digest of `first` followed by `second`.
Digest Sha256(std::string_view first, std::string_view second = {});

// Whether both are equal. The time taken does not depend on which byte differs first.
bool EqualInConstantTime(const Digest& a, const Digest& b);

}  // namespace plugins::auth
