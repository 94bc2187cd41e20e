#include "bench/policies/parallel.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace bench::policies {

void RunOnThreads(const std::vector<std::function<void()>>& runs, unsigned threads) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < runs.size(); i = next++) {
      runs[i]();
      fmt::print(stderr, "\r{} of {} ", i + 1, runs.size());
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  fmt::print(stderr, "\n");
}

}  // namespace bench::policies
