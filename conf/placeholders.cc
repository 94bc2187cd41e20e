#include "conf/placeholders.h"

#include <algorithm>

namespace conf {
namespace {

// "{{name}}": the braces directly before and behind a name.
struct Braced {
  size_t begin;  // of the braces
  size_t opening;
  std::string_view name;
  size_t closing;
  size_t end() const { return begin + opening + name.size() + closing; }
};

std::optional<Braced> NextBraced(std::string_view text, size_t from) {
  while (true) {
    const size_t begin = text.find('{', from);
    if (begin == text.npos) return std::nullopt;
    const size_t name = text.find_first_not_of('{', begin);
    if (name == text.npos) return std::nullopt;
    const size_t close = text.find_first_of("{}", name);
    if (close == text.npos) return std::nullopt;
    if (text[close] == '{') {
      from = close;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of('}', close), text.size());
    return Braced{begin, name - begin, text.substr(name, close - name), end - close};
  }
}

}  // namespace

std::string FillPlaceholders(std::string_view text, const PlaceholderValue& value) {
  std::string out;
  size_t at = 0;
  while (const std::optional<Braced> braced = NextBraced(text, at)) {
    const std::optional<std::string> found = value(braced->name);
    const size_t pairs = std::min(braced->opening, braced->closing);
    const size_t left = found ? pairs : 0;  // of the pairs, to be replaced
    out += text.substr(at, braced->begin - at);
    if (!found) {
      out += text.substr(braced->begin, braced->end() - braced->begin);
    } else {
      out.append(braced->opening - left, '{');
      if (pairs == 1) {
        out += *found;
      } else {
        out.append(pairs - 1, '{').append(braced->name).append(pairs - 1, '}');
      }
      out.append(braced->closing - left, '}');
    }
    at = braced->end();
  }
  out += text.substr(at);
  return out;
}

bool UsesPlaceholder(std::string_view text, std::string_view name) {
  size_t at = 0;
  while (const std::optional<Braced> braced = NextBraced(text, at)) {
    if (braced->name == name && std::min(braced->opening, braced->closing) == 1) return true;
    at = braced->end();
  }
  return false;
}

std::string EscapePlaceholders(std::string_view text,
                               const std::function<bool(std::string_view name)>& is_name) {
  std::string out;
  size_t at = 0;
  while (const std::optional<Braced> braced = NextBraced(text, at)) {
    out += text.substr(at, braced->begin - at);
    const std::string_view whole = text.substr(braced->begin, braced->end() - braced->begin);
    const bool named = is_name(braced->name);
    if (named) out += '{';
    out += whole;
    if (named) out += '}';
    at = braced->end();
  }
  out += text.substr(at);
  return out;
}

std::string_view UnevenPlaceholder(std::string_view text,
                                   const std::function<bool(std::string_view name)>& is_name) {
  size_t at = 0;
  while (const std::optional<Braced> braced = NextBraced(text, at)) {
    // JSON has further closing braces behind {name}.
    if (braced->opening > 1 && braced->opening != braced->closing && is_name(braced->name))
      return text.substr(braced->begin, braced->end() - braced->begin);
    at = braced->end();
  }
  return {};
}

}  // namespace conf
