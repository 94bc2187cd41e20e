#include "conf/json_text.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace conf {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Byte : uint8_t { kPlain, kEscape, kLead };

constexpr std::array<Byte, 256> kBytes = [] {
  std::array<Byte, 256> table{};
  for (size_t i = 0; i < 256; ++i) {
    table[i] = i < 0x20 || i == '"' || i == '\\' ? Byte::kEscape : i < 0x80 ? Byte::kPlain : Byte::kLead;
  }
  return table;
}();

uint8_t At(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

struct Sequence {
  size_t length;
  bool valid;
};

// The UTF-8 sequence that begins with the non-ASCII byte at `i`: its length, or that of its ill-formed part.
Sequence SequenceAt(std::string_view text, size_t i) {
  const uint8_t lead = At(text, i);
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t k = 1; k < length; ++k) {
    if (i + k >= text.size() || At(text, i + k) < low || At(text, i + k) > high) return {k, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

// The length of the plain ASCII at the beginning of `text`.
size_t PlainLength(std::string_view text) {
  const auto plain = [&](size_t i) { return kBytes[At(text, i)] == Byte::kPlain; };
  size_t i = 0;
#ifdef __SSE2__
  for (; i + 16 <= text.size(); i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + i));
    // Signed: what is not ASCII is below zero.
    const __m128i other = _mm_or_si128(
        _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')),
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
    if (const int mask = _mm_movemask_epi8(other); mask != 0)
      return i + static_cast<size_t>(std::countr_zero(static_cast<unsigned>(mask)));
  }
#endif
  while (i + 4 <= text.size() && plain(i) && plain(i + 1) && plain(i + 2) && plain(i + 3)) i += 4;
  while (i < text.size() && plain(i)) ++i;
  return i;
}

void AppendEscape(std::string& out, char c) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<uint8_t>(c) >> 4];
      out += kHex[static_cast<uint8_t>(c) & 15];
  }
}

}  // namespace

void AppendEscaped(std::string& out, std::string_view text) {
  size_t plain = 0;
  size_t i = 0;
  while (i < text.size()) {
    i += PlainLength(text.substr(i));
    if (i == text.size()) break;
    const Byte kind = kBytes[At(text, i)];
    if (kind == Byte::kLead) {
      const Sequence sequence = SequenceAt(text, i);
      if (!sequence.valid) {
        out.append(text, plain, i - plain);
        out += kReplacement;
        plain = i + sequence.length;
      }
      i += sequence.length;
      continue;
    }
    out.append(text, plain, i - plain);
    AppendEscape(out, text[i]);
    plain = ++i;
  }
  out.append(text, plain, i - plain);
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  AppendEscaped(out, text);
  out += '"';
}

std::string Quoted(std::string_view text) {
  std::string out;
  AppendQuoted(out, text);
  return out;
}

}  // namespace conf
