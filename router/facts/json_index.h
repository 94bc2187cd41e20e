// The structure of a JSON text: the positions of all brackets, commas, colons, strings and scalars, and a
// walk over them that checks the grammar. No value is built and nothing is copied.
//
// simdjson's first stage finds the structure (and invalid UTF-8, unclosed strings, raw control characters) at
// several GB/s. The walk is linear in the number of structural characters, and iterative, so that depth costs
// no stack. Owner: one JsonIndex per shard, reused for every body; not thread-safe. The text must outlive the
// walk.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace router {

struct ByteRange {
  size_t begin = 0;
  size_t size = 0;

  bool empty() const { return size == 0; }
  size_t end() const { return begin + size; }
  std::string_view In(std::string_view text) const { return text.substr(begin, size); }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

enum class JsonError : uint8_t {
  kNone,
  kMalformed,
  kUnclosedString,
  kBadEscape,  // in the string before the cursor
  kInvalidUtf8,
  kTooDeep,
  kTooLarge
};

inline constexpr size_t kMaxJsonDepth = 512;

class JsonIndex {
 public:
  JsonIndex();
  ~JsonIndex();
  JsonIndex(const JsonIndex&) = delete;
  JsonIndex& operator=(const JsonIndex&) = delete;

  // Indexes `text` and reads no byte beyond it. Memory for a large text is freed at the next small one, so
  // that a shard keeps a few MiB at most between requests.
  JsonError Build(std::string_view text);

  std::span<const uint32_t> positions() const { return positions_; }  // ascending

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::span<const uint32_t> positions_;
};

// What SkipValue reports of the values that it passes. Override by hiding (static dispatch).
struct JsonVisitor {
  void Key(std::string_view raw) { (void)raw; }     // between the quotes, escapes as written
  void String(std::string_view raw) { (void)raw; }  // likewise
  void Number(std::string_view raw) { (void)raw; }
};

// Whether all escapes between a string's quotes are JSON's, and none is half a surrogate pair.
bool EscapesAreValid(std::string_view raw);

// Where the value or name at `offset` stands in an indexed text: `messages[2].content`. Slow; for errors.
std::string JsonPathAt(std::string_view text, std::span<const uint32_t> positions, size_t offset);

// A position in an indexed text. Every step checks the grammar of what it passes.
class JsonCursor {
 public:
  JsonCursor(std::string_view text, std::span<const uint32_t> positions)
      : text_(text), positions_(positions) {}

  // The structural character here, or NUL at the end of the text.
  char Peek() const { return at_ < positions_.size() ? text_[positions_[at_]] : '\0'; }
  size_t offset() const { return at_ < positions_.size() ? positions_[at_] : text_.size(); }
  // The offset of the last token that the cursor passed.
  size_t last_offset() const { return at_ > 0 ? positions_[at_ - 1] : 0; }
  bool AtEnd() const { return at_ == positions_.size(); }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }

  // The token (string with its quotes, number or literal) that begins here; the cursor moves past it.
  ByteRange TakeToken() {
    const size_t begin = offset();
    ++at_;
    return {begin, TrimmedEnd() - begin};
  }

  // The byte after the value that ends before the next structural character.
  size_t TrimmedEnd() const {
    size_t end = offset();
    while (end > 0 && IsSpace(text_[end - 1])) --end;
    return end;
  }

  // `"key":`, with the raw text between the quotes in `key`.
  bool TakeKey(ByteRange& key) {
    if (Peek() != '"') return false;
    const ByteRange quoted = TakeToken();
    if (!Quoted(quoted)) return false;
    key = {quoted.begin + 1, quoted.size - 2};
    return HasValidEscapes(key) && Take(':');
  }

  // Skips one value of any kind; `depth` containers are open around it.
  template <class Visitor>
  JsonError SkipValue(size_t depth, Visitor& visitor);

  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

 private:
  bool Quoted(ByteRange token) const {
    return token.size >= 2 && text_[token.begin] == '"' && text_[token.end() - 1] == '"';
  }

  // Strings are passed from left to right, so that one search for backslashes serves all of them.
  bool HasValidEscapes(ByteRange inside) {
    if (backslash_ < inside.begin) backslash_ = std::min(text_.find('\\', inside.begin), text_.size());
    return backslash_ >= inside.end() || EscapesAreValid(inside.In(text_));
  }

  std::string_view text_;
  std::span<const uint32_t> positions_;
  size_t at_ = 0;
  size_t backslash_ = 0;  // the first one from some place before the cursor on
};

// Whether `text` is exactly a JSON number, or exactly true, false or null.
bool IsJsonNumber(std::string_view text);
bool IsJsonLiteral(std::string_view text);

// Decodes the text between a string's quotes. False for a bad escape or half a surrogate pair.
bool UnescapeJson(std::string_view raw, std::string& out);

template <class Visitor>
JsonError JsonCursor::SkipValue(size_t depth, Visitor& visitor) {
  std::array<bool, kMaxJsonDepth> is_object;
  size_t open = 0;
  ByteRange key;
  while (true) {
    const char first = Peek();
    if (first == '{' || first == '[') {
      if (depth + open >= kMaxJsonDepth) return JsonError::kTooDeep;
      is_object[open++] = first == '{';
      ++at_;
      if (Peek() != (first == '{' ? '}' : ']')) {
        if (first == '{') {
          if (!TakeKey(key)) return JsonError::kMalformed;
          visitor.Key(key.In(text_));
        }
        continue;
      }
    } else if (first == '\0') {
      return JsonError::kMalformed;
    } else {
      const ByteRange token = TakeToken();
      const std::string_view raw = token.In(text_);
      if (first == '"') {
        if (!Quoted(token)) return JsonError::kMalformed;
        const std::string_view inside = raw.substr(1, raw.size() - 2);
        if (!HasValidEscapes({token.begin + 1, inside.size()})) return JsonError::kBadEscape;
        visitor.String(inside);
      } else if (first == '-' || (first >= '0' && first <= '9')) {
        if (!IsJsonNumber(raw)) return JsonError::kMalformed;
        visitor.Number(raw);
      } else if (!IsJsonLiteral(raw)) {
        return JsonError::kMalformed;
      }
    }
    // A value has ended, and with it every container that closes here.
    while (true) {
      if (open == 0) return JsonError::kNone;
      const bool object = is_object[open - 1];
      if (Take(object ? '}' : ']')) {
        --open;
        continue;
      }
      if (!Take(',')) return JsonError::kMalformed;
      if (object) {
        if (!TakeKey(key)) return JsonError::kMalformed;
        visitor.Key(key.In(text_));
      }
      break;
    }
  }
}

}  // namespace router
