// The life of a request: one ordered list of stages (pipeline.cc), read top to bottom.
#pragma once

#include <span>
#include <string_view>

#include "gateway/net/task.h"
#include "gateway/request/exchange.h"

namespace gateway {

// A step that may refuse the request or wait. A stage that may wait has `wait`. If most requests need not wait,
// it also has `decide`, which is called first and returns kWaits for the others: this saves a coroutine.
struct Stage {
  std::string_view name;
  StageResult (*decide)(Exchange&);
  net::Task<StageResult> (*wait)(Exchange&);
};

// A step that runs for every request, whatever the result of the stages. It neither refuses nor waits.
struct Ending {
  std::string_view name;
  void (*run)(Exchange&);
};

std::span<const Stage> Stages();
std::span<const Ending> Endings();

// Runs one request to its end: sends the answer, settles the reservation, and closes the ledger's record.
net::Task<void> RunPipeline(Exchange& x);

}  // namespace gateway
