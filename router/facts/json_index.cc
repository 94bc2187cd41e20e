#include "router/facts/json_index.h"

#include <simdjson.h>

#include <algorithm>
#include <vector>

namespace router {
namespace {

// Between requests an index stays sized for a text of this many bytes at most (four bytes of index each).
constexpr size_t kKeptCapacity = size_t{1} << 20;
constexpr size_t kFirstBytes = size_t{64} << 10;

int HexValue(std::string_view digits) {
  int value = 0;
  for (char c : digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void AppendUtf8(uint32_t code, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// The four digits after \u at `at`, or -1.
int UnicodeEscape(std::string_view raw, size_t at) {
  return at + 4 <= raw.size() ? HexValue(raw.substr(at, 4)) : -1;
}

char SimpleEscape(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return '\0';
  }
}

}  // namespace

class JsonIndex::Impl {
 public:
  JsonError Build(std::string_view text, std::span<const uint32_t>& positions) {
    if (text.empty()) return JsonError::kMalformed;
    if (text.size() >= simdjson::SIMDJSON_MAXSIZE_BYTES) return JsonError::kTooLarge;
    const bool shrink = parser_ && parser_->capacity() > kKeptCapacity && text.size() <= kKeptCapacity;
    if (!parser_ || shrink || parser_->capacity() < text.size()) {
      parser_.reset();
      const size_t capacity = std::max(kFirstBytes, text.size());
      if (simdjson::get_active_implementation()->create_dom_parser_implementation(capacity, 1, parser_) !=
          simdjson::SUCCESS) {
        parser_.reset();
        return JsonError::kTooLarge;
      }
    }
    switch (parser_->stage1(reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                            simdjson::stage1_mode::regular)) {
      case simdjson::SUCCESS:
        positions = {parser_->structural_indexes.get(), parser_->n_structural_indexes};
        return JsonError::kNone;
      case simdjson::UTF8_ERROR:
        return JsonError::kInvalidUtf8;
      case simdjson::UNCLOSED_STRING:
        return JsonError::kUnclosedString;
      default:
        return JsonError::kMalformed;
    }
  }

 private:
  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser_;
};

JsonIndex::JsonIndex() : impl_(std::make_unique<Impl>()) {}
JsonIndex::~JsonIndex() = default;

JsonError JsonIndex::Build(std::string_view text) {
  positions_ = {};
  return impl_->Build(text, positions_);
}

bool IsJsonNumber(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - from;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const size_t whole = i;
  const size_t count = digits();
  if (count == 0 || (count > 1 && text[whole] == '0')) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

bool IsJsonLiteral(std::string_view text) {
  return text == "true" || text == "false" || text == "null";
}

bool EscapesAreValid(std::string_view raw) {
  for (size_t at = raw.find('\\'); at != std::string_view::npos; at = raw.find('\\', at)) {
    if (at + 1 == raw.size()) return false;
    if (raw[at + 1] != 'u') {
      if (SimpleEscape(raw[at + 1]) == '\0') return false;
      at += 2;
      continue;
    }
    const int code = UnicodeEscape(raw, at + 2);
    if (code < 0 || (code >= 0xdc00 && code < 0xe000)) return false;
    at += 6;
    if (code < 0xd800 || code >= 0xe000) continue;
    if (raw.substr(at, 2) != "\\u") return false;
    const int low = UnicodeEscape(raw, at + 2);
    if (low < 0xdc00 || low >= 0xe000) return false;
    at += 6;
  }
  return true;
}

std::string JsonPathAt(std::string_view text, std::span<const uint32_t> positions, size_t offset) {
  constexpr size_t kShown = 64;  // of a name
  struct Level {
    bool is_object;
    bool at_name;
    std::string_view name;
    size_t index;
  };
  std::vector<Level> levels;
  for (const uint32_t position : positions) {
    if (position > offset) break;
    Level* const level = levels.empty() ? nullptr : &levels.back();
    switch (text[position]) {
      case '{':
      case '[':
        levels.push_back({text[position] == '{', true, {}, 0});
        break;
      case '}':
      case ']':
        if (level) levels.pop_back();
        break;
      case ',':
        if (level) {
          level->at_name = true;
          ++level->index;
        }
        break;
      case ':':
        if (level) level->at_name = false;
        break;
      case '"':
        if (level && level->is_object && level->at_name) {
          const size_t end = text.find('"', position + 1);
          level->name = text.substr(position + 1, std::min(end - position - 1, kShown));
        }
        break;
      default:
        break;
    }
  }
  std::string path;
  for (const Level& level : levels) {
    if (!level.is_object) {
      path += '[' + std::to_string(level.index) + ']';
    } else {
      if (!path.empty() && !level.name.empty()) path += '.';
      path += level.name.empty() ? R"([""])" : level.name;
    }
  }
  return path;
}

bool UnescapeJson(std::string_view raw, std::string& out) {
  out.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out.push_back(raw[i]);
      continue;
    }
    if (++i == raw.size()) return false;
    if (raw[i] != 'u') {
      const char c = SimpleEscape(raw[i]);
      if (c == '\0') return false;
      out.push_back(c);
      continue;
    }
    int code = UnicodeEscape(raw, i + 1);
    if (code < 0 || (code >= 0xdc00 && code < 0xe000)) return false;
    i += 4;
    if (code >= 0xd800 && code < 0xdc00) {
      if (raw.substr(i + 1, 2) != "\\u") return false;
      const int low = UnicodeEscape(raw, i + 3);
      if (low < 0xdc00 || low >= 0xe000) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      i += 6;
    }
    AppendUtf8(static_cast<uint32_t>(code), out);
  }
  return true;
}

}  // namespace router
