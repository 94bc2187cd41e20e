// Recorded inference traffic for `tidegate simulate requests` and `traffic`: a file of calls, or a folder of
// ServeGen's clients, which are mixed. Reads files and prints their problems.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "router/sim/world.h"
#include "scheduler/engine/model.h"

namespace gateway::cli {

struct TrafficSource {
  std::string path;  // a file or a folder
  std::string format = "auto";
  std::vector<std::string> clients;  // CLIENT:TIMES@SHIFT, of a folder; none: each as it is
  std::string from = "0s";           // durations, as text
  std::string window;                // empty: to the end; of a file, not beyond it
  uint64_t seed = 1;
  bool strict = false;
  bool json = false;
};

struct RecordedTraffic {
  std::vector<router::sim::Request> requests{};  // by time since `from`, at least one, not all at once
  size_t rows = 0;
  size_t left_out = 0;
};

// The traffic, which is the command's argument, and the part of it to simulate.
void AddSourceOptions(CLI::App& command, TrafficSource& source);
// --seed, --strict and --json.
void AddRunOptions(CLI::App& command, TrafficSource& source);

// The traffic, or the exit code of the command after its error message; `problems` are those of its other
// options.
struct LoadedTraffic {
  std::optional<RecordedTraffic> traffic{};
  int code = 0;
};
LoadedTraffic LoadTraffic(const TrafficSource& source, std::vector<conf::Problem> problems);

// The preset, or a problem of --engine.
std::optional<scheduler::engine::Profile> FindEngine(const std::string& name,
                                                     std::vector<conf::Problem>& problems);

}  // namespace gateway::cli
