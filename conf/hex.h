// Lower-case hexadecimal text. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace conf {

std::string Hex(std::span<const uint8_t> bytes);
// Writes two digits for each byte to `to`, which must have room for them.
void WriteHex(std::span<const uint8_t> bytes, char* to);

// Fills `bytes` from exactly two lower-case digits for each. Strict, unlike absl::HexStringToBytes, so that
// one value has one text. After an error `bytes` may be half filled.
bool ParseHex(std::string_view hex, std::span<uint8_t> bytes);

}  // namespace conf
