#include "conf/hex.h"

#include <array>

namespace conf {

std::string Hex(std::span<const uint8_t> bytes) {
  std::string hex(2 * bytes.size(), '\0');
  WriteHex(bytes, hex.data());
  return hex;
}

void WriteHex(std::span<const uint8_t> bytes, char* to) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const uint8_t byte : bytes) {
    *to++ = kDigits[byte >> 4];
    *to++ = kDigits[byte & 15];
  }
}

namespace {

constexpr std::array<int, 256> LowerDigits() {
  std::array<int, 256> digits{};
  for (size_t c = 0; c < digits.size(); ++c) {
    const auto letter = static_cast<char>(c);
    digits[c] = letter >= 'A' && letter <= 'F' ? -1 : HexDigit(letter);
  }
  return digits;
}

}  // namespace

bool ParseHex(std::string_view hex, std::span<uint8_t> bytes) {
  // The ledger's index reads two links for each request.
  static constexpr std::array<int, 256> kDigits = LowerDigits();
  if (hex.size() != 2 * bytes.size()) return false;
  int wrong = 0;  // negative, once a character is no digit
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = kDigits[static_cast<uint8_t>(hex[2 * i])];
    const int low = kDigits[static_cast<uint8_t>(hex[2 * i + 1])];
    wrong |= high | low;
    bytes[i] = static_cast<uint8_t>((high & 15) << 4 | (low & 15));
  }
  return wrong >= 0;
}

}  // namespace conf
