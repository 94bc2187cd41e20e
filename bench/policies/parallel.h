// Independent simulations on several threads, with progress on stderr.
#pragma once

#include <functional>
#include <vector>

namespace bench::policies {

// Returns when all have ended. The results must not depend on `threads`.
void RunOnThreads(const std::vector<std::function<void()>>& runs, unsigned threads);

}  // namespace bench::policies
