#include "gateway/request/text_count.h"

#include <cstring>

namespace gateway {
namespace {

constexpr auto kNowhere = std::string_view::npos;

// A string's text: `bytes` of UTF-8, and the position of its closing quote.
struct Text {
  uint64_t bytes = 0;
  size_t end = kNowhere;
};

// `begin`: the first byte after the opening quote.
Text ReadText(std::string_view data, size_t begin) {
  Text text;
  for (size_t i = begin; i < data.size(); ++i) {
    if (data[i] == '"') {
      text.end = i;
      return text;
    }
    if (data[i] == '\\' && i + 1 < data.size()) {
      const bool unicode = data[i + 1] == 'u';
      text.bytes += unicode ? 2 : 1;  // most characters that are escaped like this have two bytes
      i += unicode ? 5 : 1;
    } else {
      ++text.bytes;
    }
  }
  return text;
}

size_t SkipSpace(std::string_view data, size_t i) {
  while (i < data.size() && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t')) ++i;
  return i;
}

// Just past the object or array that begins at `i`, or the end of the data.
size_t EndOfNested(std::string_view data, size_t i) {
  size_t depth = 0;
  for (; i < data.size(); ++i) {
    if (data[i] == '"') {
      i = ReadText(data, i + 1).end;
      if (i == kNowhere) break;
    } else if (data[i] == '{' || data[i] == '[') {
      ++depth;
    } else if (data[i] == '}' || data[i] == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return data.size();
}

// The array or object that is the member `wanted` of the object `data`; empty if there is none.
std::string_view MemberOf(std::string_view data, std::string_view wanted) {
  for (size_t i = SkipSpace(data, 0) + 1; i < data.size(); ++i) {
    if (data[i] == '{' || data[i] == '[') {
      i = EndOfNested(data, i) - 1;
    } else if (data[i] == '"') {
      const size_t end = ReadText(data, i + 1).end;
      if (end == kNowhere) return {};
      const size_t colon = SkipSpace(data, end + 1);
      const size_t value = colon < data.size() && data[colon] == ':' ? SkipSpace(data, colon + 1) : colon;
      const bool nested = value < data.size() && (data[value] == '{' || data[value] == '[');
      if (nested && data.substr(i + 1, end - i - 1) == wanted)
        return data.substr(value, EndOfNested(data, value) - value);
      i = end;
    }
  }
  return {};
}

// All items of a Responses object: of the document, or of its member `response`.
std::string_view OutputOf(std::string_view data) {
  const std::string_view wrapped = MemberOf(data, "response");
  return MemberOf(wrapped.empty() ? data : wrapped, "output");
}

// The text of items of Responses.
bool IsTextOfItem(std::string_view key) {
  return key == "text" || key == "refusal" || key == "arguments" || key == "input" || key == "name";
}

// Calls `value(key, begin)` for each member whose value is a string, an object or an array, which begins at
// `begin`. `value` returns where to go on.
template <class Value>
void ForEachMember(std::string_view data, Value value) {
  size_t i = 0;
  while ((i = data.find('"', i)) != kNowhere) {
    const Text key = ReadText(data, i + 1);
    if (key.end == kNowhere) return;
    const size_t colon = SkipSpace(data, key.end + 1);
    const size_t begin = colon < data.size() && data[colon] == ':' ? SkipSpace(data, colon + 1) : kNowhere;
    if (begin == kNowhere || begin >= data.size() || (data[begin] != '"' && data[begin] != '{')) {
      i = key.end + 1;
      continue;
    }
    i = value(i, data.substr(i + 1, key.end - i - 1), begin);
    if (i == kNowhere) return;
  }
}

uint64_t TextOfItems(std::string_view data) {
  uint64_t bytes = 0;
  ForEachMember(data, [&](size_t, std::string_view key, size_t begin) {
    if (data[begin] != '"') return begin;
    const Text text = ReadText(data, begin + 1);
    if (IsTextOfItem(key)) bytes += text.bytes;
    return text.end == kNowhere ? kNowhere : text.end + 1;
  });
  return bytes;
}

}  // namespace

bool TextCount::IsText(std::string_view key) const {
  switch (form_) {
    case Form::kChat:
      return key == "content" || key == "text" || key == "arguments" || key == "reasoning_content" ||
             key == "reasoning" || key == "refusal" || key == "name";
    case Form::kMessages:
      return key == "text" || key == "thinking" || key == "partial_json" || key == "name";
    case Form::kResponses:
      return key == "delta";  // the events that end a part repeat its text
  }
  return false;
}

// Arguments of tools that an engine writes as what they are: always in whole answers of Messages, else by mistake.
bool TextCount::IsTextAsObject(std::string_view key) const {
  return (form_ == Form::kMessages && key == "input") || (form_ == Form::kChat && key == "arguments");
}

bool TextCount::Add(std::string_view data) {
  const uint64_t before = bytes_;
  const bool like_last = AddLikeLast(data);
  const bool same = like_last && BeginsLikeLast(data);
  if (!like_last) AddAny(data);
  if (bytes_ > before) ++events_;
  return same;
}

bool TextCount::BeginsLikeLast(std::string_view data) const {
  return std::memcmp(data.data(), front_.data(), begin_) == 0;
}

bool TextCount::AddLikeLast(std::string_view data) {
  if (key_size_ == 0 || data.size() < begin_ + rest_size_) return false;
  const size_t key = begin_ - key_size_;
  if (std::memcmp(data.data() + key, front_.data() + key, key_size_) != 0) return false;
  const Text text = ReadText(data, begin_);
  if (text.end == kNowhere || data.size() - text.end != rest_size_) return false;
  if (std::memcmp(data.data() + text.end, rest_.data(), rest_size_) != 0) return false;
  bytes_ += text.bytes;
  return true;
}

void TextCount::AddItem(std::string_view event) {
  item_bytes_ += TextOfItems(event);
}

void TextCount::AddOutput(std::string_view data) {
  item_bytes_ = std::max(item_bytes_, TextOfItems(OutputOf(data)));
}

void TextCount::AddAny(std::string_view data) {
  size_t texts = 0;
  size_t key_begin = 0;
  size_t begin = 0;
  size_t end = 0;
  ForEachMember(data, [&](size_t at, std::string_view key, size_t value) {
    if (data[value] != '"') {
      if (!IsTextAsObject(key)) return value;
      const size_t past = EndOfNested(data, value);
      constexpr size_t kEmpty = 2;
      if (past - value > kEmpty) bytes_ += past - value;
      return past;
    }
    const Text text = ReadText(data, value + 1);
    if (IsText(key)) {
      bytes_ += text.bytes;
      ++texts;
      key_begin = at;
      begin = value + 1;
      end = text.end;
    }
    return text.end == kNowhere ? kNowhere : text.end + 1;
  });
  key_size_ = 0;
  if (texts != 1 || end == kNowhere) return;
  if (begin > front_.size() || data.size() - end > rest_.size()) return;
  key_size_ = begin - key_begin;
  begin_ = begin;
  rest_size_ = data.size() - end;
  std::memcpy(front_.data(), data.data(), begin);
  std::memcpy(rest_.data(), data.data() + end, rest_size_);
}

}  // namespace gateway
