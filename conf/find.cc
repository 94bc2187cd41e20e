#include "conf/find.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace conf {

#ifdef __SSE2__

namespace {

constexpr size_t kLanes = 16;
constexpr size_t kWideLanes = 32;
constexpr size_t kMinNeedle = 4;

// In a text of at least the needle's size and kLanes - 2 bytes.
size_t FindSixteenAtATime(std::string_view text, std::string_view needle) {
  // By two letters: not the outermost, which in JSON are quotes.
  const size_t back = needle.size() - 2;
  const __m128i second = _mm_set1_epi8(needle[1]);
  const __m128i last_but_one = _mm_set1_epi8(needle[back]);
  // The last look may overlap the one before it; its last place is past the end.
  const size_t last = text.size() - needle.size() - (kLanes - 2);
  for (size_t at = 0;; at = std::min(at + kLanes, last)) {
    const char* from = text.data() + at;
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 1));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + back));
    const __m128i both = _mm_and_si128(_mm_cmpeq_epi8(a, second), _mm_cmpeq_epi8(b, last_but_one));
    auto hits = static_cast<unsigned>(_mm_movemask_epi8(both));
    if (at == last) hits &= (1u << (kLanes - 1)) - 1;
    for (; hits != 0; hits &= hits - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(hits));
      if (std::memcmp(from + i, needle.data(), needle.size()) == 0) return at + i;
    }
    if (at == last) return std::string_view::npos;
  }
}

// The same with lanes twice as wide, where the processor has them.
__attribute__((target("avx2"))) size_t FindThirtyTwoAtATime(std::string_view text, std::string_view needle) {
  const size_t back = needle.size() - 2;
  const __m256i second = _mm256_set1_epi8(needle[1]);
  const __m256i last_but_one = _mm256_set1_epi8(needle[back]);
  const size_t last = text.size() - needle.size() - (kWideLanes - 2);
  for (size_t at = 0;; at = std::min(at + kWideLanes, last)) {
    const char* from = text.data() + at;
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 1));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + back));
    const __m256i both = _mm256_and_si256(_mm256_cmpeq_epi8(a, second), _mm256_cmpeq_epi8(b, last_but_one));
    auto hits = static_cast<unsigned>(_mm256_movemask_epi8(both));
    if (at == last) hits &= (1u << (kWideLanes - 1)) - 1;
    for (; hits != 0; hits &= hits - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(hits));
      if (std::memcmp(from + i, needle.data(), needle.size()) == 0) return at + i;
    }
    if (at == last) return std::string_view::npos;
  }
}

const bool kIsWide = __builtin_cpu_supports("avx2");

}  // namespace

size_t Find(std::string_view text, std::string_view needle) {
  if (needle.size() >= kMinNeedle && text.size() >= needle.size() + kWideLanes - 2 && kIsWide)
    return FindThirtyTwoAtATime(text, needle);
  if (needle.size() >= kMinNeedle && text.size() >= needle.size() + kLanes - 2)
    return FindSixteenAtATime(text, needle);
  return text.find(needle);
}

#else

size_t Find(std::string_view text, std::string_view needle) {
  return text.find(needle);
}

#endif

}  // namespace conf
