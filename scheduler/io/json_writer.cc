#include "scheduler/io/json_writer.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace scheduler::io {
namespace {

bool IsPlain(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') return false;
  }
  return true;
}

}  // namespace

void JsonWriter::Text(std::string_view text) {
  if (IsPlain(text)) {
    *out_ += '"';
    *out_ += text;
    *out_ += '"';
  } else {
    *out_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

void JsonWriter::Number(int64_t number) {
  fmt::format_to(std::back_inserter(*out_), "{}", number);
}
void JsonWriter::Number(uint64_t number) {
  fmt::format_to(std::back_inserter(*out_), "{}", number);
}
void JsonWriter::Number(double number) {
  fmt::format_to(std::back_inserter(*out_), "{}", number);
}
void JsonWriter::Bool(bool value) {
  *out_ += value ? "true" : "false";
}

void JsonWriter::Begin(char bracket) {
  *out_ += bracket;
  first_ = true;
  ++depth_;
}

void JsonWriter::End(char bracket) {
  if (bracket == ']' && !first_ && breaks()) *out_ += '\n';
  --depth_;
  *out_ += bracket;
  first_ = false;
}

void JsonWriter::Key(std::string_view key) {
  if (!first_) *out_ += ',';
  first_ = false;
  if (layout_ == Layout::kItemPerLine && depth_ == 1) *out_ += '\n';
  Text(key);
  *out_ += ':';
}

void JsonWriter::Item() {
  if (!first_) *out_ += ',';
  first_ = false;
  if (breaks()) *out_ += '\n';
}

void WriteJson(JsonWriter& writer, conf::Duration in) {
  writer.Text(conf::FormatDuration(in));
}

void WriteJson(JsonWriter& writer, conf::TimePoint in) {
  writer.Text(absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", absl::FromUnixNanos(in.time_since_epoch().count()),
                               absl::UTCTimeZone()));
}

}  // namespace scheduler::io
