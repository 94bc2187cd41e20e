// Counts what a benchmark's loop allocates, and reports it an iteration as `allocs`.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>

namespace bench {

uint64_t AllocationsSoFar();  // by this thread

// Stands around a benchmark's loop.
class AllocationCounter {
 public:
  explicit AllocationCounter(benchmark::State& state) : state_(state), before_(AllocationsSoFar()) {}
  // To a hundredth: what is set on the state between the loop and here allocates once.
  ~AllocationCounter() {
    const uint64_t hundredths = (AllocationsSoFar() - before_) * 100 /
                                static_cast<uint64_t>(std::max<int64_t>(1, state_.iterations()));
    state_.counters["allocs"] = static_cast<double>(hundredths) / 100;
  }
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

 private:
  benchmark::State& state_;
  uint64_t before_;
};

}  // namespace bench
