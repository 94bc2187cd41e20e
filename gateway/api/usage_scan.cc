#include "gateway/api/usage_scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <string>

namespace gateway::api {
namespace {

constexpr size_t kBlock = 64;

// Messages' members that count cached tokens beside input_tokens.
bool CountsBeside(std::string_view key) {
  return key == "cache_read_input_tokens" || key == "cache_creation_input_tokens" || key == "cache_creation";
}

// The members that tell what a cache held, under all their names.
bool TellsCache(std::string_view key) {
  return key == "cached_tokens" || key == "prompt_cache_hit_tokens" || key == "prompt_cache_miss_tokens" ||
         CountsBeside(key) || (key.starts_with("ephemeral_") && key.ends_with("_input_tokens"));
}

// Where the member that begins at `i` ends: at its comma, or at the end of the object's content.
size_t EndOfMember(std::string_view content, size_t i) {
  size_t depth = 0;
  bool in_string = false;
  for (; i < content.size(); ++i) {
    const char c = content[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  return i;
}

// A usage object of Messages as if nothing had been cached. Empty where it would be longer.
std::string WithoutCache(std::string_view object, uint64_t input) {
  std::string out = "{";
  const std::string_view content = object.substr(1, object.size() - 2);
  for (size_t at = 0; at < content.size();) {
    const size_t end = EndOfMember(content, at);
    const std::string_view member = content.substr(at, end - at);
    at = end + 1;
    const size_t open = member.find('"');
    const size_t close = open == std::string_view::npos ? open : member.find('"', open + 1);
    const std::string_view key =
        close == std::string_view::npos ? std::string_view() : member.substr(open + 1, close - open - 1);
    if (CountsBeside(key)) continue;
    if (out.size() > 1) out += ',';
    if (key == "input_tokens") {
      out.append(member.substr(0, close + 1)).append(":").append(std::to_string(input));
    } else {
      out += member;
    }
  }
  if (out.size() + 1 > object.size()) return {};
  out.append(object.size() - out.size() - 1, ' ');
  return out += '}';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool BeginsNumber(char c) {
  return IsDigit(c) || c == '-';
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
  captured_now_ = 0;
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
  if (capturing_ && writable != nullptr) HideBegun(writable + n - captured_now_);
}

// The piece ends within the object, which may count cached tokens beside the others: it cannot be written
// anew.
void UsageScan::HideBegun(char* begin) {
  constexpr std::string_view kInput = "\"input_tokens\"";
  const std::string_view text(begin, captured_now_);
  bool hidden = hid_digit_;
  for (size_t at = text.find(kInput); at != std::string_view::npos; at = text.find(kInput, at + 1)) {
    hidden = false;
    for (size_t i = at + kInput.size();
         i < text.size() && (IsDigit(text[i]) || text[i] == ' ' || text[i] == ':'); ++i) {
      if (!IsDigit(text[i])) continue;
      begin[i] = hidden ? ' ' : '0';
      hidden = true;
    }
  }
  if (in_string_ || key() != "input_tokens") return;
  hides_number_ = true;
  hid_digit_ = hidden;
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
      if (wanted_ == Wanted::kUsage || wanted_ == Wanted::kTimings) {
        capturing_ = true;
        capture_depth_ = 0;
        captured_ = captured_now_ = 0;
        hides_number_ = beside_ = false;
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
    const bool wraps = IsUsageWrapper(key());
    wrapper_ = wraps;
    known_depth_ = wraps ? 2 : key() == "choices" ? kKnownDepth : 1;
    if (key() == "usage") wanted_ = Wanted::kUsage;
    if (hide_cached_ && key() == "timings") wanted_ = Wanted::kTimings;
    if (key() == "stop_reason") wanted_ = Wanted::kStopReason;
  } else if (depth_ == 2 && wrapper_) {
    if (key() == "usage") wanted_ = Wanted::kUsage;
  } else if (depth_ == kKnownDepth) {
    if (key() == "finish_reason") wanted_ = Wanted::kFinishReason;
    if (key() == "usage") wanted_ = Wanted::kUsage;
  }
}

// The text of a wanted value. One choice that was cut short outweighs those that were not.
void UsageScan::EndString() {
  if (wanted_ == Wanted::kUsage || wanted_ == Wanted::kTimings) return;
  const std::string_view cut = wanted_ == Wanted::kFinishReason ? "length" : "max_tokens";
  wanted_ = Wanted::kNothing;
  if (key() == cut) {
    finish_ = Finish::kLength;
  } else if (!key().empty() && finish_ == Finish::kNone) {
    finish_ = Finish::kDone;
  }
}

// Whether the number behind the key tells what a cache held. llama.cpp's timings tell it by what was left to
// compute. Input that is counted beside the cache tells it, too: as EndCapture finds, it can be told all the
// same.
bool UsageScan::Hides() const {
  if (wanted_ == Wanted::kTimings) return key().starts_with("cache") || key().starts_with("prompt");
  return TellsCache(key()) || (key() == "input_tokens" && captured_now_ != captured_);
}

void UsageScan::Capture(char c, char* place) {
  if (captured_ < object_text_.size()) object_text_[captured_] = c;
  ++captured_;
  ++captured_now_;
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
      hides_number_ = Hides();
      beside_ = beside_ || CountsBeside(key());
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
      if (--capture_depth_ == 0) EndCapture(place);
      break;
    default:
      break;
  }
}

// `end`: the object's last byte, where it may be written; null where not.
void UsageScan::EndCapture(char* end) {
  capturing_ = false;
  const bool timings = wanted_ == Wanted::kTimings;
  wanted_ = Wanted::kNothing;
  if (timings || captured_ > object_text_.size()) return;
  const std::string_view object(object_text_.data(), captured_);
  const std::optional<Usage> usage = ReadUsage(object);
  if (!usage) return;
  // What the document reports outweighs what its choices do.
  const bool of_choice = depth_ == kKnownDepth;
  if (!of_choice || !of_document_) usage_ = usage;
  of_document_ = of_document_ || !of_choice;
  if (end == nullptr || !beside_ || captured_now_ != captured_) return;
  const std::string hidden = WithoutCache(object, usage->input);
  if (!hidden.empty()) std::copy(hidden.begin(), hidden.end(), end + 1 - hidden.size());
}

}  // namespace gateway::api
