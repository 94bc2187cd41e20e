// The life of a request: one ordered list of stages (pipeline.cc), read top to bottom.
#pragma once

#include <span>
#include <string_view>

#include "gateway/net/task.h"
#include "gateway/request/exchange.h"

namespace gateway {

// A step that may refuse the request or wait. One that may wait has `wait`, and where most requests need not,
// `decide` too: it is asked first, so that they cost no coroutine, and says kWaits for the others.
struct Stage {
  std::string_view name;
  StageResult (*decide)(Exchange&);
  net::Task<StageResult> (*wait)(Exchange&);
};

// A step that runs for every request, however the stages ended. It neither refuses nor waits.
struct Ending {
  std::string_view name;
  void (*run)(Exchange&);
};

std::span<const Stage> Stages();
std::span<const Ending> Endings();

// Runs one request to its end: the answer is sent, the reservation settled, the ledger's record closed.
net::Task<void> RunPipeline(Exchange& x);

}  // namespace gateway
