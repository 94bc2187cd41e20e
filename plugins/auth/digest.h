// SHA-256 as the hot path wants it: state on the stack, no allocation, cannot fail. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plugins::auth {

using Digest = std::array<uint8_t, 32>;

Digest Sha256(std::string_view data);

std::string ToHex(std::string_view bytes);
std::string ToHex(const Digest& digest);

// Exactly 64 lower-case hex digits.
std::optional<Digest> DigestFromHex(std::string_view hex);

// True when both are equal; takes the same time whatever byte differs first.
bool EqualInConstantTime(const Digest& a, const Digest& b);

}  // namespace plugins::auth
