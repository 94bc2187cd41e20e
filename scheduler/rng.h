// A small portable random source: the same seed gives the same numbers with every compiler and library, which
// std::*_distribution does not promise. xoshiro256** (Blackman and Vigna), seeded by SplitMix64.
//
// A value type; not thread-safe: one per shard, simulation or test. Not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace scheduler {

class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  constexpr uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  // Uniform over [0, n), without modulo bias (Lemire's multiply and reject); 0 for n = 0.
  constexpr uint64_t Uniform(uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    if (n == 0) return 0;
    Wide product = Wide{Next()} * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t reject_below = (0 - n) % n;
      while (static_cast<uint64_t>(product) < reject_below) product = Wide{Next()} * n;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform over [0, 1), in steps of 2^-53.
  constexpr double Double() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // A source of its own, independent of what this one gives later.
  constexpr Rng Fork() { return Rng(Next()); }

  // Fisher and Yates, for anything with size() and operator[].
  template <class Sequence>
  constexpr void Shuffle(Sequence& sequence) {
    for (size_t i = sequence.size(); i > 1; --i) {
      std::swap(sequence[i - 1], sequence[static_cast<size_t>(Uniform(i))]);
    }
  }

 private:
  static constexpr uint64_t Rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

  std::array<uint64_t, 4> state_;
};

}  // namespace scheduler
