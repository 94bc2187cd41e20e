// Counts what a benchmark's loop allocates, and reports it an iteration as `allocs`.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

namespace bench {

uint64_t AllocationsSoFar();  // by this thread

// Stands around a benchmark's loop.
class AllocationCounter {
 public:
  explicit AllocationCounter(benchmark::State& state) : state_(state), before_(AllocationsSoFar()) {}
  ~AllocationCounter() {
    state_.counters["allocs"] = benchmark::Counter(static_cast<double>(AllocationsSoFar() - before_),
                                                   benchmark::Counter::kAvgIterations);
  }
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

 private:
  benchmark::State& state_;
  uint64_t before_;
};

}  // namespace bench
