// MakeMatch: a recursive-descent walk over a regular expression that writes a match instead of searching for
// one.
#include <algorithm>
#include <cctype>
#include <cstddef>

#include "tools/engine/prose.h"
#include "tools/engine/schema.h"

namespace tidegate_engine {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kWordCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr size_t kMaxRepeat = 1024;

class Walk {
 public:
  Walk(std::string_view pattern, uint64_t seed) : pattern_(pattern), draw_(seed) {}

  bool Whole(std::string& out) { return Alternatives(out) && at_ == pattern_.size(); }

 private:
  bool More() const { return at_ < pattern_.size(); }
  bool Eat(char c) {
    if (!More() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }

  // Writes the first alternative, and skips the others.
  bool Alternatives(std::string& out) {
    if (!Sequence(out)) return false;
    std::string ignored;
    while (Eat('|')) {
      if (!Sequence(ignored)) return false;
    }
    return true;
  }

  bool Sequence(std::string& out) {
    while (More() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      if (Eat('^') || Eat('$')) continue;
      size_t begin = at_;
      std::string once;
      if (!Atom(once)) return false;
      size_t end = at_;
      size_t count = 1;
      if (!Count(count)) return false;
      size_t after = at_;
      for (size_t i = 0; i < count; ++i) {
        once.clear();
        at_ = begin;
        if (!Atom(once)) return false;
        out += once;
        at_ = end;
      }
      at_ = after;
    }
    return true;
  }

  bool Atom(std::string& out) {
    if (Eat('(')) {
      if (Eat('?') && !Eat(':')) return false;
      return Alternatives(out) && Eat(')');
    }
    std::string choices;
    if (Eat('[')) {
      if (!Class(choices)) return false;
    } else if (Eat('\\')) {
      if (!Escape(choices)) return false;
    } else if (Eat('.')) {
      choices = kWordCharacters;
    } else {
      choices = pattern_[at_++];
    }
    out += choices[draw_.Below(choices.size())];
    return true;
  }

  bool Escape(std::string& choices) {
    if (!More()) return false;
    char c = pattern_[at_++];
    switch (c) {
      case 'd':
        choices += kDigits;
        return true;
      case 'w':
        choices += kWordCharacters;
        return true;
      case 's':
        choices += ' ';
        return true;
      case 'n':
        choices += '\n';
        return true;
      case 't':
        choices += '\t';
        return true;
      default:
        if (std::isalnum(static_cast<unsigned char>(c))) return false;  // \b, \D, \p…, back references
        choices += c;
        return true;
    }
  }

  bool Class(std::string& choices) {
    bool negated = Eat('^');
    std::string listed;
    while (More() && pattern_[at_] != ']') {
      if (Eat('\\')) {
        if (!Escape(listed)) return false;
        continue;
      }
      char low = pattern_[at_++];
      if (at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']') {
        char high = pattern_[at_ + 1];
        at_ += 2;
        for (int c = low; c <= high; ++c) listed += static_cast<char>(c);
      } else {
        listed += low;
      }
    }
    if (!Eat(']')) return false;
    if (!negated) {
      choices = listed;
    } else {
      for (char c : kWordCharacters) {
        if (listed.find(c) == std::string::npos) choices += c;
      }
    }
    return !choices.empty();
  }

  bool Count(size_t& count) {
    if (Eat('?') || Eat('*') || Eat('+')) {
      char c = pattern_[at_ - 1];
      count = c == '?' ? 1 : c == '*' ? 2 : 1 + draw_.Below(5);
      Eat('?');
      return true;
    }
    if (!Eat('{')) return true;
    size_t low = 0;
    if (!Number(low)) return false;
    size_t high = low;
    if (Eat(',')) {
      if (!Number(high)) high = low + 2;
    }
    if (!Eat('}') || high < low || low > kMaxRepeat) return false;
    count = low + draw_.Below(std::min<size_t>(high - low, 8) + 1);
    return true;
  }

  bool Number(size_t& value) {
    size_t begin = at_;
    value = 0;
    while (More() && std::isdigit(static_cast<unsigned char>(pattern_[at_])) && at_ - begin < 6) {
      value = value * 10 + static_cast<size_t>(pattern_[at_++] - '0');
    }
    return at_ > begin;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  Draw draw_;
};

}  // namespace

bool MakeMatch(std::string_view pattern, uint64_t seed, std::string& out) {
  if (pattern.size() > 4096) return false;
  return Walk(pattern, seed).Whole(out) && out.size() <= 65536;
}

}  // namespace tidegate_engine
