#include "conf/reader.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "conf/shown.h"
#include "conf/text.h"

namespace conf {
namespace {

bool IsPlainScalar(const Value& value) {
  return value.kind() == Kind::kScalar && !value.quoted();
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

template <class Int>
void ReadInteger(const Value& value, Int& out) {
  const std::string_view expected = std::is_signed_v<Int> ? "a whole number" : "a whole number of at least 0";
  if (!IsPlainScalar(value)) {
    value.ErrorExpected(expected);
    return;
  }
  const std::string& text = value.text();
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  const bool zero_led = digits.size() > 1 && digits[0] == '0';
  const char* end = text.data() + text.size();
  Int parsed = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, parsed);
  if (error == std::errc::result_out_of_range && rest == end) {
    const bool small = text.starts_with('-');
    value.Error(fmt::format("{} is too {}, expected at {} {}", value.text(), small ? "small" : "large",
                            small ? "least" : "most",
                            small ? std::numeric_limits<Int>::min() : std::numeric_limits<Int>::max()));
  } else if (error != std::errc{} || rest != end || zero_led) {
    value.ErrorExpected(expected);
  } else {
    out = parsed;
  }
}

constexpr std::array<std::pair<std::string_view, uint64_t>, 9> kSizeUnits = {{{"", 1},
                                                                              {"B", 1},
                                                                              {"KiB", 1ULL << 10},
                                                                              {"MiB", 1ULL << 20},
                                                                              {"GiB", 1ULL << 30},
                                                                              {"TiB", 1ULL << 40},
                                                                              {"kB", 1'000},
                                                                              {"MB", 1'000'000},
                                                                              {"GB", 1'000'000'000}}};

constexpr int64_t kMicro = 1'000'000;

// A number with at least this many digits and a known unit is taken to be out of range.
constexpr size_t kManyDigits = 6;

// Whether `text` fails only because its number is too large: with a small one in its place it is read.
template <class Parse>
bool IsTooLarge(std::string_view text, const Parse& parse) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits < kManyDigits) return false;
  return parse("1" + std::string(text.substr(digits))).has_value();
}

// Up to this length a word is shown whole, in or without quotes of its own.
constexpr size_t kShortWord = 64;

std::string Listed(std::span<const std::string_view> words) {
  std::vector<std::string> out(words.begin(), words.end());
  return absl::StrJoin(out, ", ");
}

}  // namespace

void Read(const Value& value, std::string& out) {
  if (value.kind() != Kind::kScalar) {
    value.ErrorExpected("a text");
  } else if (HasControlCharacter(value.text())) {
    value.Error("must not contain line breaks or other control characters");
  } else {
    out = value.text();
  }
}

void Read(const Value& value, bool& out) {
  if (IsPlainScalar(value) && value.text() == "true") {
    out = true;
  } else if (IsPlainScalar(value) && value.text() == "false") {
    out = false;
  } else {
    value.ErrorExpected("true or false");
  }
}

void Read(const Value& value, double& out) {
  double parsed = 0;
  if (IsPlainScalar(value)) {
    const std::string& text = value.text();
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, parsed);
    if (error == std::errc{} && rest == end && std::isfinite(parsed)) {
      out = parsed;
      return;
    }
  }
  value.ErrorExpected("a number");
}

void Read(const Value& value, int64_t& out) {
  ReadInteger(value, out);
}
void Read(const Value& value, uint64_t& out) {
  ReadInteger(value, out);
}
void Read(const Value& value, uint32_t& out) {
  ReadInteger(value, out);
}
void Read(const Value& value, uint16_t& out) {
  ReadInteger(value, out);
}

void Read(const Value& value, Duration& out) {
  const std::optional<Duration> parsed =
      value.kind() == Kind::kScalar ? ParseDuration(value.text()) : std::nullopt;
  if (parsed) {
    out = *parsed;
  } else if (value.kind() == Kind::kScalar && IsTooLarge(value.text(), ParseDuration)) {
    value.Error(fmt::format("{} is too large, expected at most 106000d", value.text()));
  } else {
    value.ErrorExpected("a duration with a unit, such as 500ms, 30s or 5m");
  }
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  for (const auto& [name, bytes] : kSizeUnits) {
    if (unit != name) continue;
    if (number > std::numeric_limits<int64_t>::max() / bytes) return std::nullopt;
    return number * bytes;
  }
  return std::nullopt;
}

std::optional<int64_t> ParseMicroUsd(std::string_view text) {
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  const auto digits = [](std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (whole.empty() || !digits(whole) || !digits(fraction) || fraction.size() > 6) return std::nullopt;
  if (point != std::string_view::npos && fraction.empty()) return std::nullopt;
  int64_t dollars = 0;
  if (std::from_chars(whole.data(), whole.data() + whole.size(), dollars).ec != std::errc{})
    return std::nullopt;
  if (dollars >= std::numeric_limits<int64_t>::max() / kMicro) return std::nullopt;
  int64_t micro = 0;
  for (size_t i = 0; i < 6; ++i) micro = micro * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  return dollars * kMicro + micro;
}

std::string FormatMicroUsd(int64_t micro_usd) {
  std::string out = fmt::format("{}.{:06}", micro_usd / kMicro, micro_usd % kMicro);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out;
}

namespace internal {

bool ExpectSequence(const Value& value) {
  if (value.kind() == Kind::kSequence) return true;
  value.ErrorExpected("a list");
  return false;
}

bool ExpectMapping(const Value& value) {
  if (value.kind() == Kind::kMapping) return true;
  value.ErrorExpected("a mapping");
  return false;
}

void ReadSize(const Value& value, uint64_t& out) {
  const std::optional<uint64_t> parsed =
      value.kind() == Kind::kScalar ? ParseSize(value.text()) : std::nullopt;
  if (parsed) {
    out = *parsed;
  } else if (value.kind() == Kind::kScalar && IsTooLarge(value.text(), ParseSize)) {
    value.Error(fmt::format("{} is too large, expected at most 8388607TiB", value.text()));
  } else {
    value.ErrorExpected("a size in bytes, such as 1048576, 64KiB or 1GiB");
  }
}

void ReadMicroUsd(const Value& value, int64_t& out) {
  const std::optional<int64_t> parsed =
      value.kind() == Kind::kScalar ? ParseMicroUsd(value.text()) : std::nullopt;
  if (parsed) {
    out = *parsed;
  } else if (value.kind() == Kind::kScalar && IsTooLarge(value.text(), ParseMicroUsd)) {
    value.Error(fmt::format("{} is too large, expected at most 9000000000000", value.text()));
  } else {
    value.ErrorExpected("an amount in USD of at least 0 with at most six decimals, such as 0.15");
  }
}

std::optional<size_t> ReadWord(const Value& value, std::string_view noun,
                               std::span<const std::string_view> words) {
  if (value.kind() != Kind::kScalar) {
    value.ErrorExpected(fmt::format("one of {}", Listed(words)));
    return std::nullopt;
  }
  const auto found = std::find(words.begin(), words.end(), value.text());
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  std::string hint = DidYouMean(value.text(), words);
  if (hint.empty()) hint = ", expected one of " + Listed(words);
  const bool is_short = value.text().size() <= kShortWord;
  const std::string shown = is_short ? fmt::format("\"{}\"", value.text()) : value.Found();
  value.Error(fmt::format("unknown {} {}{}", noun, shown, hint));
  return std::nullopt;
}

std::string TooSmall(int64_t min) {
  return fmt::format("must be at least {}", min);
}
std::string TooSmall(uint64_t min) {
  return fmt::format("must be at least {}", min);
}
std::string TooSmall(double min) {
  return fmt::format("must be at least {}", min);
}
std::string TooSmall(Duration min) {
  return fmt::format("must be at least {}", InWords(min));
}
std::string NotBetween(int64_t min, int64_t max) {
  return fmt::format("must be between {} and {}", min, max);
}
std::string NotBetween(uint64_t min, uint64_t max) {
  return fmt::format("must be between {} and {}", min, max);
}
std::string NotBetween(double min, double max) {
  return fmt::format("must be between {} and {}", min, max);
}
std::string NotBetween(Duration min, Duration max) {
  return fmt::format("must be between {} and {}", InWords(min), InWords(max));
}

}  // namespace internal

Object::Object(const Value& value) : value_(value) {
  if (value.kind() != Kind::kMapping) value.ErrorExpected("a mapping");
}

Object::Object(Writer& writer) : writer_(&writer) {
  writer.BeginMapping();
}

Object::~Object() {
  if (!value_ || value_->kind() != Kind::kMapping) return;
  for (const auto& [key, field] : value_->Fields()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string hint = DidYouMean(key, known_);
    if (hint.empty()) hint = value_->document().HintElsewhere(key);
    if (key == "<<") hint = ": mappings are not merged; write the keys out";
    if (hint.empty()) hint = ", expected one of " + Listed(known_);
    value_->ErrorAtKey(key, fmt::format("unknown key \"{}\"{}", key, hint));
  }
}

bool Object::Has(std::string_view key) const {
  return value_ && value_->kind() == Kind::kMapping && value_->Find(key).has_value();
}

void Object::Error(std::string_view message, std::string_view key) const {
  if (!value_ || value_->kind() != Kind::kMapping) return;
  const std::optional<Value> field = key.empty() ? std::nullopt : value_->Find(key);
  if (field) {
    field->Error(message);
  } else if (key.empty()) {
    value_->Error(message);
  } else {
    value_->ErrorAtKey(key, message);
  }
}

std::optional<Value> Object::Take(std::string_view key, bool required) {
  known_.push_back(key);
  if (value_->kind() != Kind::kMapping) return std::nullopt;
  std::optional<Value> field = value_->Find(key);
  if (!field) {
    if (required) {
      value_->ErrorAtKey(key, "is required");
    } else {
      value_->document().NoteDefault(JoinPointer(value_->pointer(), key));
    }
    return std::nullopt;
  }
  if (field->kind() == Kind::kNull) {
    field->Error("has no value; give one or remove the key");
    return std::nullopt;
  }
  return field;
}

}  // namespace conf
