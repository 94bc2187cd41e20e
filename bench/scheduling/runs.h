// Many simulations beside each other, and what each of them costs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace bench::scheduling {

// CPU time of this thread: what other processes take of the machine does not count.
double ThreadCpuSeconds();

// Calls `run` for 0 to `count` - 1 on this many threads, in any order; `done` is called for each in turn,
// as soon as it and those before it have run, by one thread at a time. Shows its progress on a terminal.
void RunAll(const std::string& what, size_t count, unsigned threads, const std::function<void(size_t)>& run,
            const std::function<void(size_t)>& done);

}  // namespace bench::scheduling
