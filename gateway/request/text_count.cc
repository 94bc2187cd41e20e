#include "gateway/request/text_count.h"

#include <algorithm>
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

void TextCount::AddAny(std::string_view data) {
  size_t texts = 0;
  size_t key_begin = 0;
  size_t begin = 0;
  size_t end = 0;
  size_t i = 0;
  while ((i = data.find('"', i)) != kNowhere) {
    const Text key = ReadText(data, i + 1);
    if (key.end == kNowhere) break;
    const size_t colon = SkipSpace(data, key.end + 1);
    const size_t value = colon < data.size() && data[colon] == ':' ? SkipSpace(data, colon + 1) : kNowhere;
    if (value == kNowhere || value >= data.size() || data[value] != '"') {
      i = key.end + 1;
      continue;
    }
    const Text text = ReadText(data, value + 1);
    if (IsText(data.substr(i + 1, key.end - i - 1))) {
      bytes_ += text.bytes;
      ++texts;
      key_begin = i;
      begin = value + 1;
      end = text.end;
    }
    if (text.end == kNowhere) break;
    i = text.end + 1;
  }
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
