#include "conf/json_reader.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "conf/document.h"
#include "conf/json_dump.h"
#include "conf/text.h"

namespace conf {
namespace {

constexpr size_t kShownOfJson = 80;
constexpr int kMaxDepth = 64;
constexpr double kMaxSeconds = 9.2e9;  // what nanoseconds in 64 bits hold

std::string Shown(const Json& value) {
  std::string text = DumpJson(value);  // ASCII: may be cut anywhere
  if (text.size() > kShownOfJson) text = text.substr(0, kShownOfJson) + "...";
  return text;
}

// Whole numbers exactly, where ParseDuration goes by way of a double.
std::optional<Duration> ExactDuration(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (error == std::errc{} && number >= 0 && unit == "ns") return Duration(number);
  if (error == std::errc{} && number >= 0 && unit == "us" && number < INT64_MAX / 1'000)
    return Duration(number * 1'000);
  if (error == std::errc{} && number >= 0 && unit == "ms" && number < INT64_MAX / 1'000'000)
    return Duration(number * 1'000'000);
  return ParseDuration(text);
}

std::optional<Duration> Seconds(const Json& in, double min) {
  if (in.is_number_integer()) {
    const auto whole = in.get<int64_t>();
    if (std::abs(static_cast<double>(whole)) >= kMaxSeconds || static_cast<double>(whole) < min)
      return std::nullopt;
    return std::chrono::seconds(whole);
  }
  const auto seconds = in.get<double>();
  if (!(std::abs(seconds) < kMaxSeconds) || seconds < min) return std::nullopt;
  return Duration(std::llround(seconds * 1e9));
}

}  // namespace

void JsonFaults::Add(std::string message, const Json* value) {
  if (++count_ > kKept) return;
  std::string pointer;
  for (const std::string& token : path_) pointer = JoinPointer(pointer, token);
  faults_.push_back({std::move(pointer), value == nullptr || value->is_structured() ? "" : Shown(*value),
                     std::move(message)});
}

void JsonFaults::Expected(std::string_view what, const Json& found) {
  const std::string shown = found.is_object()  ? "an object"
                            : found.is_array() ? "a list"
                            : found.is_null()  ? "null"
                                               : Shown(found);
  Add(fmt::format("expected {}, found {}", what, shown), &found);
}

void JsonFaults::Unknown(std::string_view noun, const Json& found,
                         const std::vector<std::string_view>& words) {
  std::string hint =
      found.is_string() ? DidYouMean(found.get_ref<const std::string&>(), words) : std::string();
  if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(words, ", "));
  Add(fmt::format("unknown {} {}{}", noun, Shown(found), hint), &found);
}

std::optional<Json> ParseJson(std::string_view text, JsonFaults& faults) {
  std::vector<absl::flat_hash_set<std::string>> open;  // keys seen of the objects that are being read
  std::string repeated;
  bool too_deep = false;
  const auto see = [&](int depth, Json::parse_event_t event, Json& value) {
    too_deep |= depth > kMaxDepth;
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open.back().insert(key).second && repeated.empty()) repeated = key;
    }
    return !too_deep;  // what lies deeper is passed over
  };
  try {
    Json parsed = Json::parse(text.begin(), text.end(), see);
    if (too_deep) {
      faults.Add(fmt::format("is nested more than {} deep", kMaxDepth));
      return std::nullopt;
    }
    if (repeated.empty()) return parsed;
    faults.Add(fmt::format("key {} is given twice", Shown(Json(repeated))));
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ..."
    const std::string_view what = error.what();
    const size_t end = what.find("] ");
    std::string_view why = end == std::string_view::npos ? what : what.substr(end + 2);
    // Of one line among many its number is the caller's to say.
    constexpr std::string_view kOneLine = "parse error at line 1, ";
    if (why.starts_with(kOneLine) && text.find('\n') == std::string_view::npos)
      why.remove_prefix(kOneLine.size());
    faults.Add(fmt::format("is not JSON: {}", why));
  }
  return std::nullopt;
}

void ReadJson(const Json& in, std::string& out, JsonFaults& faults) {
  if (in.is_string()) {
    out = in.get_ref<const std::string&>();
  } else {
    faults.Expected("a text", in);
  }
}

void ReadJson(const Json& in, bool& out, JsonFaults& faults) {
  if (in.is_boolean()) {
    out = in.get<bool>();
  } else {
    faults.Expected("true or false", in);
  }
}

void ReadJson(const Json& in, double& out, JsonFaults& faults) {
  if (in.is_number()) {
    out = in.get<double>();
  } else {
    faults.Expected("a number", in);
  }
}

std::optional<int64_t> ReadWhole(const Json& in, int64_t min, int64_t max, JsonFaults& faults) {
  if (!in.is_number_integer()) {
    faults.Expected("a whole number", in);
    return std::nullopt;
  }
  const bool huge = in.is_number_unsigned() && in.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (huge || in.get<int64_t>() < min || in.get<int64_t>() > max) {
    faults.Expected(fmt::format("a whole number between {} and {}", min, max), in);
    return std::nullopt;
  }
  return in.get<int64_t>();
}

void ReadJson(const Json& in, uint64_t& out, JsonFaults& faults) {
  if (in.is_number_unsigned()) {
    out = in.get<uint64_t>();
  } else {
    faults.Expected("a whole number of at least 0", in);
  }
}

void ReadJson(const Json& in, Duration& out, JsonFaults& faults) {
  std::optional<Duration> read;
  if (in.is_number()) read = Seconds(in, 0);
  if (in.is_string()) read = ExactDuration(in.get_ref<const std::string&>());
  if (read) {
    out = *read;
  } else {
    faults.Expected("a duration with a unit, such as \"30m\", or seconds of at least 0", in);
  }
}

void ReadJson(const Json& in, TimePoint& out, JsonFaults& faults) {
  std::optional<TimePoint> read;
  if (in.is_number()) {
    if (const auto since = Seconds(in, -kMaxSeconds)) read = TimePoint(*since);
  }
  if (in.is_string()) read = ParseTime(in.get_ref<const std::string&>());
  if (read) {
    out = *read;
  } else {
    faults.Expected("a time such as \"2026-11-20T08:30:00Z\", or seconds since the epoch", in);
  }
}

void FieldReader::ReportUnknownKeys() const {
  for (const auto& [key, value] : in_->items()) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    if (faults_->full()) {
      faults_->Add({});
      continue;
    }
    std::string hint = DidYouMean(key, known_);
    if (hint.empty()) hint = fmt::format(", expected one of {}", fmt::join(known_, ", "));
    faults_->Add(fmt::format("unknown key {}{}", Shown(Json(key)), hint));
  }
}

}  // namespace conf
