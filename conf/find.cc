#include "conf/find.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace conf {

size_t Find(std::string_view text, std::string_view needle) {
  size_t at = 0;
#ifdef __SSE2__
  constexpr size_t kLanes = 16;
  if (needle.size() >= 4) {
    // Sixteen places at a time, by two letters: not the outermost, which in JSON are quotes.
    const size_t back = needle.size() - 2;
    const __m128i second = _mm_set1_epi8(needle[1]);
    const __m128i last_but_one = _mm_set1_epi8(needle[back]);
    for (; at + needle.size() + kLanes <= text.size(); at += kLanes) {
      const char* from = text.data() + at;
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 1));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + back));
      const __m128i both = _mm_and_si128(_mm_cmpeq_epi8(a, second), _mm_cmpeq_epi8(b, last_but_one));
      for (auto hits = static_cast<unsigned>(_mm_movemask_epi8(both)); hits != 0; hits &= hits - 1) {
        const auto i = static_cast<size_t>(__builtin_ctz(hits));
        if (std::memcmp(from + i, needle.data(), needle.size()) == 0) return at + i;
      }
    }
  }
#endif
  if (text.size() - at < needle.size()) return std::string_view::npos;
  const void* hit = memmem(text.data() + at, text.size() - at, needle.data(), needle.size());
  return hit == nullptr ? std::string_view::npos
                        : static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

}  // namespace conf
