// SHA-256 with its state on the stack: no allocation, cannot fail. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plugins::auth {

using Digest = std::array<uint8_t, 32>;

// The digest of `first` followed by `second`.
Digest Sha256(std::string_view first, std::string_view second = {});

std::string ToHex(std::string_view bytes);
std::string ToHex(const Digest& digest);

// Exactly 64 lower-case hex digits.
std::optional<Digest> DigestFromHex(std::string_view hex);

// Whether both are equal. The time taken does not depend on which byte differs first.
bool EqualInConstantTime(const Digest& a, const Digest& b);

}  // namespace plugins::auth
