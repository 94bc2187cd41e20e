#include "bench/scheduling/runs.h"

#include <atomic>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/scheduling/progress.h"

namespace bench::scheduling {

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void RunAll(const std::string& what, size_t count, unsigned threads, const std::function<void(size_t)>& run,
            const std::function<void(size_t)>& done) {
  Progress progress(what, count);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::vector<bool> has_run(count, false);
  size_t told = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      run(i);
      const std::scoped_lock lock(mutex);
      has_run[i] = true;
      progress.Clear();
      while (told < count && has_run[told]) done(told++);
      std::fflush(stdout);
      progress.Step();
    }
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
  work();
}

}  // namespace bench::scheduling
