#include "gateway/api/usage_scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>

namespace gateway::api {
namespace {

constexpr size_t kBlock = 64;

// The members that tell what a cache held, under all their names.
bool TellsCache(std::string_view key) {
  return key == "cached_tokens" || key == "prompt_cache_hit_tokens" || key == "prompt_cache_miss_tokens";
}

bool BeginsNumber(char c) {
  return (c >= '0' && c <= '9') || c == '-';
}

bool ContinuesNumber(char c) {
  return BeginsNumber(c) || c == '.' || c == 'e' || c == 'E' || c == '+';
}

#ifdef __SSE2__

struct Masks {
  uint64_t quotes;
  uint64_t backslashes;
  uint64_t opens;   // { and [
  uint64_t closes;  // } and ]
};

Masks MasksOf(const char* block) {
  Masks masks{};
  for (unsigned i = 0; i < kBlock; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
    const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));  // [ and { differ in this bit alone
    const auto mask = [&](__m128i equal) {
      return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(equal))) << i;
    };
    masks.quotes |= mask(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    masks.backslashes |= mask(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    masks.opens |= mask(_mm_cmpeq_epi8(lower, _mm_set1_epi8('{')));
    masks.closes |= mask(_mm_cmpeq_epi8(lower, _mm_set1_epi8('}')));
  }
  return masks;
}

// The bytes that a backslash before them escapes. `carry`: whether the block's first byte is one, and then
// whether the next block's is.
uint64_t Escaped(uint64_t backslashes, bool& carry) {
  if (backslashes == 0) {
    const uint64_t first = carry ? 1 : 0;
    carry = false;
    return first;
  }
  constexpr uint64_t kEven = 0x5555555555555555;
  const uint64_t before = carry ? 1 : 0;
  backslashes &= ~before;
  const uint64_t follows = backslashes << 1 | before;
  const uint64_t odd_starts = backslashes & ~kEven & ~follows;
  uint64_t even_runs = 0;
  carry = __builtin_add_overflow(odd_starts, backslashes, &even_runs);
  return (kEven ^ (even_runs << 1)) & follows;
}

// Bit i is the parity of bits 0 to i.
uint64_t PrefixParity(uint64_t bits) {
  for (const unsigned shift : {1U, 2U, 4U, 8U, 16U, 32U}) bits ^= bits << shift;
  return bits;
}

#endif

}  // namespace

void UsageScan::Scan(const char* data, size_t n, char* writable) {
  const auto bytes = [&](size_t from, size_t to) {
    for (size_t i = from; i < to && !ended_; ++i) Byte(data[i], writable == nullptr ? nullptr : writable + i);
  };
  size_t at = 0;
#ifdef __SSE2__
  for (; at + kBlock <= n && !ended_; at += kBlock) {
    if (capturing_ || depth_ <= known_depth_) {
      bytes(at, at + kBlock);
      continue;
    }
    const Masks masks = MasksOf(data + at);
    bool escaped = escaped_;
    const uint64_t quotes = masks.quotes & ~Escaped(masks.backslashes, escaped);
    const uint64_t within = PrefixParity(quotes) ^ (in_string_ ? ~uint64_t{0} : 0);
    const auto closes = static_cast<uint32_t>(std::popcount(masks.closes & ~within));
    // It may come back to where something is wanted; or is broken: a backslash outside of strings escapes
    // nothing.
    if (depth_ <= known_depth_ + closes || (masks.backslashes & ~within) != 0) {
      bytes(at, at + kBlock);
      continue;
    }
    depth_ += static_cast<uint32_t>(std::popcount(masks.opens & ~within)) - closes;
    in_string_ = (within >> 63 & 1) != 0;
    escaped_ = escaped;
    keeps_text_ = false;  // of a string that began here
  }
#endif
  bytes(at, n);
}

void UsageScan::Byte(char c, char* place) {
  if (capturing_) return Capture(c, place);
  if (in_string_) return InString(c);
  switch (c) {
    case '"':
      in_string_ = true;
      keeps_text_ = depth_ <= known_depth_ && (at_key_ || wanted_ != Wanted::kNothing);
      if (keeps_text_) key_size_ = 0;
      break;
    case '{':
      if (wanted_ == Wanted::kUsage) {
        capturing_ = true;
        capture_depth_ = 0;
        captured_ = 0;
        hides_number_ = false;
        return Capture(c, place);
      }
      Open(true);
      break;
    case '[':
      Open(false);
      break;
    case '}':
    case ']':
      Close();
      break;
    case ':':
      if (at_key_) Colon();
      break;
    case ',':
      if (depth_ <= known_depth_) at_key_ = object_[depth_];
      wanted_ = Wanted::kNothing;
      break;
    default:
      break;
  }
}

void UsageScan::InString(char c) {
  if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    in_string_ = false;
    if (keeps_text_ && wanted_ != Wanted::kNothing) EndString();
    return;
  }
  if (!keeps_text_) return;
  if (key_size_ < kMaxKey) {
    key_[key_size_++] = c;
  } else {
    key_[0] = '\0';  // no name that is known is so long
  }
}

void UsageScan::Open(bool object) {
  ++depth_;
  wanted_ = Wanted::kNothing;
  at_key_ = false;
  if (depth_ > known_depth_) return;
  object_[depth_] = object;
  at_key_ = object;
}

void UsageScan::Close() {
  wanted_ = Wanted::kNothing;
  at_key_ = false;
  if (depth_ > 0) --depth_;
  if (depth_ == 1) {
    known_depth_ = 1;
    wrapper_ = false;
  }
  ended_ = depth_ == 0;
}

// The key of the value that comes is known.
void UsageScan::Colon() {
  at_key_ = false;
  if (depth_ == 1) {
    const bool wraps = key() == "response" || key() == "message";
    wrapper_ = wraps;
    known_depth_ = wraps ? 2 : key() == "choices" ? kKnownDepth : 1;
    if (key() == "usage") wanted_ = Wanted::kUsage;
    if (key() == "stop_reason") wanted_ = Wanted::kStopReason;
  } else if (depth_ == 2 && wrapper_) {
    if (key() == "usage") wanted_ = Wanted::kUsage;
  } else if (depth_ == kKnownDepth && key() == "finish_reason") {
    wanted_ = Wanted::kFinishReason;
  }
}

// The text of a wanted value. One choice that was cut short outweighs those that were not.
void UsageScan::EndString() {
  if (wanted_ == Wanted::kUsage) return;
  const std::string_view cut = wanted_ == Wanted::kFinishReason ? "length" : "max_tokens";
  wanted_ = Wanted::kNothing;
  if (key() == cut) {
    finish_ = Finish::kLength;
  } else if (!key().empty() && finish_ == Finish::kNone) {
    finish_ = Finish::kDone;
  }
}

void UsageScan::Capture(char c, char* place) {
  if (captured_ < object_text_.size()) object_text_[captured_] = c;
  ++captured_;
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      return;
    }
    if (key_size_ < kMaxKey) key_[key_size_++] = c;
    return;
  }
  if (hides_number_ && (hid_digit_ ? ContinuesNumber(c) : BeginsNumber(c))) {
    if (place != nullptr) *place = hid_digit_ ? ' ' : '0';
    hid_digit_ = true;
    return;
  }
  switch (c) {
    case '"':
      in_string_ = true;
      key_size_ = 0;
      break;
    case ':':
      hides_number_ = TellsCache(key());
      hid_digit_ = false;
      break;
    case ',':
      hides_number_ = false;
      break;
    case '{':
    case '[':
      ++capture_depth_;
      hides_number_ = false;
      break;
    case '}':
    case ']':
      hides_number_ = false;
      if (--capture_depth_ == 0) EndCapture();
      break;
    default:
      break;
  }
}

void UsageScan::EndCapture() {
  capturing_ = false;
  wanted_ = Wanted::kNothing;
  if (captured_ > object_text_.size()) return;
  if (const std::optional<Usage> usage = ReadUsage({object_text_.data(), captured_})) usage_ = usage;
}

}  // namespace gateway::api
