#include "tools/engine/prose.h"

#include <cstddef>
#include <string_view>

namespace tidegate_engine {
namespace {

// Words of at most five letters, so that a word with its space is one token. The first ones, of at most four,
// leave room for the mark that ends a sentence.
constexpr std::string_view kWords[] = {
    "tide",  "wave",  "port",  "ship",  "boat",  "gate",  "lock",  "flow",  "sea",   "sand",  "wind",
    "rain",  "salt",  "moon",  "time",  "rope",  "mast",  "sail",  "deck",  "hull",  "bay",   "reef",
    "surf",  "pier",  "dock",  "quay",  "crew",  "helm",  "one",   "two",   "far",   "near",  "well",
    "slow",  "fast",  "calm",  "deep",  "high",  "low",   "home",  "east",  "west",  "the",   "a",
    "of",    "to",    "and",   "in",    "is",    "it",    "that",  "with",  "as",    "for",   "at",
    "on",    "by",    "from",  "this",  "we",    "you",   "they",  "he",    "she",   "then",  "when",
    "so",    "but",   "or",    "not",   "all",   "some",  "each",  "has",   "have",  "was",   "were",
    "can",   "will",  "may",   "must",  "goes",  "went",  "come",  "water", "ocean", "shore", "coast",
    "river", "storm", "cloud", "light", "night", "point", "plain", "stone", "under", "above", "after",
    "since", "while", "often", "never", "again", "still", "first", "third", "early", "every", "other",
    "great", "small", "quiet", "clear", "north", "south", "turns", "rises", "falls", "moves", "holds",
    "keeps", "finds", "takes", "gives", "makes", "begin", "reach", "carry", "leave", "watch", "guide",
};
constexpr size_t kShort = 42;  // nouns and the like of at most four letters: a sentence can end with one
static_assert(std::size(kWords) == 132);

}  // namespace

uint64_t Draw::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void AppendProse(uint64_t seed, uint32_t tokens, std::string& text, std::vector<uint32_t>& ends) {
  Draw draw(seed);
  text.reserve(text.size() + size_t{tokens} * 6);
  ends.reserve(ends.size() + tokens);
  uint64_t left = 0;  // words of the sentence
  bool opens = true;
  for (uint32_t i = 0; i < tokens; ++i) {
    if (left == 0) {
      left = 5 + draw.Below(9);
      opens = true;
    }
    --left;
    bool closes = left == 0 || i + 1 == tokens;
    std::string_view word = kWords[draw.Below(closes ? kShort : std::size(kWords))];
    if (i > 0) text += ' ';
    text += opens ? static_cast<char>(word[0] - 'a' + 'A') : word[0];
    text += word.substr(1);
    if (closes) text += '.';
    opens = false;
    ends.push_back(static_cast<uint32_t>(text.size()));
  }
}

}  // namespace tidegate_engine
