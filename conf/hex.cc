#include "conf/hex.h"

#include <array>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace conf {

std::string Hex(std::span<const uint8_t> bytes) {
  std::string hex(2 * bytes.size(), '\0');
  WriteHex(bytes, hex.data());
  return hex;
}

void WriteHex(std::span<const uint8_t> bytes, char* to) {
  static constexpr char kDigits[] = "0123456789abcdef";
#ifdef __SSE2__
  // Eight bytes at a time: the ledger writes a digest for each record.
  for (; bytes.size() >= 8; bytes = bytes.subspan(8), to += 16) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes.data()));
    const __m128i low_bits = _mm_set1_epi8(15);
    const __m128i high = _mm_and_si128(_mm_srli_epi16(eight, 4), low_bits);
    const __m128i digits = _mm_unpacklo_epi8(high, _mm_and_si128(eight, low_bits));
    const __m128i letters =
        _mm_and_si128(_mm_cmpgt_epi8(digits, _mm_set1_epi8(9)), _mm_set1_epi8('a' - '0' - 10));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_add_epi8(_mm_add_epi8(digits, _mm_set1_epi8('0')), letters));
  }
#endif
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
  size_t i = 0;
#ifdef __SSE2__
  for (; i + 8 <= bytes.size(); i += 8) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(hex.data() + 2 * i));
    const auto within = [text](char first, char last) {
      return _mm_and_si128(_mm_cmpgt_epi8(text, _mm_set1_epi8(static_cast<char>(first - 1))),
                           _mm_cmplt_epi8(text, _mm_set1_epi8(static_cast<char>(last + 1))));
    };
    const __m128i digits = within('0', '9');
    const __m128i letters = within('a', 'f');
    if (_mm_movemask_epi8(_mm_or_si128(digits, letters)) != 0xFFFF) return false;
    const __m128i values = _mm_or_si128(_mm_and_si128(digits, _mm_sub_epi8(text, _mm_set1_epi8('0'))),
                                        _mm_and_si128(letters, _mm_sub_epi8(text, _mm_set1_epi8('a' - 10))));
    // Of each pair the first digit is the high one.
    const __m128i pairs = _mm_or_si128(_mm_and_si128(_mm_slli_epi16(values, 4), _mm_set1_epi16(0xF0)),
                                       _mm_srli_epi16(values, 8));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(bytes.data() + i), _mm_packus_epi16(pairs, pairs));
  }
#endif
  for (; i < bytes.size(); ++i) {
    const int high = kDigits[static_cast<uint8_t>(hex[2 * i])];
    const int low = kDigits[static_cast<uint8_t>(hex[2 * i + 1])];
    wrong |= high | low;
    bytes[i] = static_cast<uint8_t>((high & 15) << 4 | (low & 15));
  }
  return wrong >= 0;
}

}  // namespace conf
