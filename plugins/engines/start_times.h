// The times of an engine's start, from its log: how long it loaded its weights, and how long it compiled. Pure.
//
// vLLM: "Model loading took 14.9 GiB and 5.1 seconds", "torch.compile takes 33.2 s in total", "Graph capturing
// finished in 21 secs"; SGLang: "Load weight end. elapsed=12.3 s", "Capture cuda graph end. Time elapsed: 5.3 s".
// The processes of a replica report the same phases at the same time, so the longest of each counts, not their sum.
#pragma once

#include <optional>
#include <string_view>

#include "conf/time.h"

namespace plugins::engines {

struct StartTimes {
  std::optional<conf::Duration> loaded{};    // absent: the engine does not say it
  std::optional<conf::Duration> compiled{};  // kernels and graphs together; likewise
};

StartTimes ReadStartTimes(std::string_view log);

}  // namespace plugins::engines
