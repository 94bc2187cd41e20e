#include "conf/json_writer.h"

#include <fmt/format.h>

#include <iterator>

#include "conf/json_text.h"

namespace conf {

void JsonWriter::Separate() {
  if (out_->empty()) return;
  constexpr std::string_view kNoComma = "{[:, \n";
  if (kNoComma.find(out_->back()) == std::string_view::npos) *out_ += ',';
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  *out_ += bracket;
  ++depth_;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  if (bracket == ']' && out_->back() != '[' && breaks()) *out_ += '\n';
  --depth_;
  *out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  if (layout_ == Layout::kItemPerLine && depth_ == 1) *out_ += '\n';
  AppendQuoted(*out_, key);
  *out_ += ':';
  return *this;
}

JsonWriter& JsonWriter::Item() {
  Separate();
  if (breaks()) *out_ += '\n';
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  AppendQuoted(*out_, value);
  return *this;
}

JsonWriter& JsonWriter::Whole(int64_t value) {
  Separate();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Whole(uint64_t value) {
  Separate();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  Separate();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  return Raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::Null() {
  return Raw("null");
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  *out_ += json;
  return *this;
}

}  // namespace conf
