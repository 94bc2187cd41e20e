// The life of a request: one ordered list of stages (pipeline.cc), read top to bottom.
#pragma once

#include <string_view>

#include "gateway/exchange.h"
#include "gateway/net/task.h"

namespace gateway {

// A stage either decides at once or may wait; it has exactly one of the two functions.
struct Stage {
  std::string_view name;
  Verdict (*decide)(Exchange&);
  net::Task<Verdict> (*wait)(Exchange&);
};

// Runs one request to its end: the answer is out, the reservation settled, the ledger's record closed.
net::Task<void> RunPipeline(Exchange& x);

}  // namespace gateway
