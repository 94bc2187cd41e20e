// Answers without a prescribed form: plausible English of an exact number of tokens, from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tidegate_engine {

// A portable stream of pseudo-random numbers (SplitMix64).
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  uint64_t Below(uint64_t bound) { return Next() % bound; }  // bound > 0
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Appends `tokens` words to `text`, each one token of the tokenizer, and the end offset of each to `ends`.
void AppendProse(uint64_t seed, uint32_t tokens, std::string& text, std::vector<uint32_t>& ends);

}  // namespace tidegate_engine
