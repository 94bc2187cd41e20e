// A part of this benchmark: what a cluster of Kubernetes, or a shared store, costs. One file each.
//
// Figures of time are of the CPU wherever that is possible: it depends least on what else the machine does.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>

namespace bench::clusters {

struct Options {
  bool quick = false;  // does it work: a tenth of everything
  size_t Of(size_t all) const { return quick ? all / 10 : all; }
};

// Each prints a table, and fills `out`.
absl::Status MeasureLauncher(const Options& options, nlohmann::json& out);
absl::Status MeasurePicks(const Options& options, nlohmann::json& out);
absl::Status MeasureLeader(const Options& options, nlohmann::json& out);

}  // namespace bench::clusters
