#include "gateway/api/freeform_input.h"

#include "gateway/api/json.h"
#include "router/facts/json_index.h"

namespace gateway::api {
namespace {

constexpr std::string_view kOpening = R"({"input":")";
constexpr uint32_t kReplacement = 0xFFFD;

bool SpaceMayPrecede(size_t place) {
  return kOpening[place] == '{' || kOpening[place] == ':' || place == 1 || place + 1 == kOpening.size();
}

void AppendUtf8(uint32_t code, std::string& out) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace

void FreeformInput::Feed(std::string_view piece, std::string& input) {
  for (size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    switch (state_) {
      case State::kOpening:
        held_ += c;
        Open(c);
        break;
      case State::kText:
        if (c == '\\') {
          state_ = State::kEscape;
          break;
        }
        EndSurrogate(input);
        if (c == '"') {
          state_ = State::kClosed;
        } else {
          input += c;
        }
        break;
      case State::kEscape:
        Escape(c, input);
        break;
      case State::kUnicode:
        Unicode(c, input);
        break;
      case State::kOtherForm:
        held_ += piece.substr(i);
        return;
      case State::kClosed:
        return;
    }
  }
}

void FreeformInput::Finish(std::string& input) {
  if (state_ == State::kOpening || state_ == State::kOtherForm) {
    simdjson::dom::parser parser;
    Faults faults;
    JsonObject arguments;
    std::string_view text = held_;
    if (ParseObject(parser, held_, faults, arguments)) text = StringOr(arguments, "input", held_);
    input += text;
  }
  EndSurrogate(input);
  state_ = State::kClosed;
  held_.clear();
}

void FreeformInput::Open(char c) {
  if (c == kOpening[opened_]) {
    if (++opened_ < kOpening.size()) return;
    state_ = State::kText;
    held_.clear();
  } else if (!router::JsonCursor::IsSpace(c) || !SpaceMayPrecede(opened_)) {
    state_ = State::kOtherForm;
  }
}

void FreeformInput::Escape(char c, std::string& input) {
  if (c == 'u') {
    state_ = State::kUnicode;
    code_ = 0;
    digits_ = 4;
    return;
  }
  EndSurrogate(input);
  constexpr std::string_view kNames = "bfnrt";
  constexpr std::string_view kMeanings = "\b\f\n\r\t";
  const size_t name = kNames.find(c);
  input += name == std::string_view::npos ? c : kMeanings[name];
  state_ = State::kText;
}

void FreeformInput::Unicode(char c, std::string& input) {
  const char lower = static_cast<char>(c | 0x20);
  const bool digit = c >= '0' && c <= '9';
  if (!digit && (lower < 'a' || lower > 'f')) {  // no escape that JSON knows: it stands for itself
    EndSurrogate(input);
    AppendUtf8(kReplacement, input);
    state_ = State::kText;
    return Feed(std::string_view(&c, 1), input);
  }
  code_ = code_ * 16 + static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  if (--digits_ > 0) return;
  state_ = State::kText;
  const bool trailing = code_ >= 0xDC00 && code_ < 0xE000;
  if (leading_ != 0 && trailing) {
    AppendUtf8(0x10000 + ((leading_ - 0xD800) << 10) + (code_ - 0xDC00), input);
    leading_ = 0;
    return;
  }
  EndSurrogate(input);
  if (code_ >= 0xD800 && code_ < 0xDC00) {
    leading_ = code_;
  } else {
    AppendUtf8(trailing ? kReplacement : code_, input);
  }
}

// A leading surrogate whose partner did not come.
void FreeformInput::EndSurrogate(std::string& input) {
  if (leading_ != 0) AppendUtf8(kReplacement, input);
  leading_ = 0;
}

}  // namespace gateway::api
