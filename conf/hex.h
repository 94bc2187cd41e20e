// Hexadecimal text, lower-case where it is written. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace conf {

std::string Hex(std::span<const uint8_t> bytes);
// Writes two digits for each byte to `to`, which must have room for them.
void WriteHex(std::span<const uint8_t> bytes, char* to);

// Fills `bytes` from exactly two lower-case digits for each. Strict, so that one value has one text:
// absl::HexStringToBytes reads any byte as a digit, and it and absl::BytesToHexString allocate, which the
// paths of requests and records avoid. What `bytes` holds after an error means nothing.
bool ParseHex(std::string_view hex, std::span<uint8_t> bytes);

// The value of a digit of either case; -1 for any other character.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace conf
