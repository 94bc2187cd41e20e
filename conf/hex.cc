#include "conf/hex.h"

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

int LowerDigit(char c) {
  return c >= 'A' && c <= 'F' ? -1 : HexDigit(c);
}

}  // namespace

bool ParseHex(std::string_view hex, std::span<uint8_t> bytes) {
  if (hex.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = LowerDigit(hex[2 * i]);
    const int low = LowerDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

}  // namespace conf
