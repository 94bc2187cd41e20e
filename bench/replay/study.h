// What benches over recorded traces in virtual time share: where the traces are, the traces as requests, and
// the file of all figures.
#pragma once

#include <CLI/CLI.hpp>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "router/sim/servegen.h"
#include "router/sim/traffic.h"
#include "router/sim/world.h"

namespace bench {

struct StudyOptions {
  std::string traces;     // a folder
  std::string json_file;  // empty: none
};

// --traces, which TIDEGATE_TRACES gives too, and --json.
void AddStudyOptions(CLI::App& app, StudyOptions& options);

// Nothing, and why on standard error, when the file cannot be read or has fewer than two requests.
std::optional<std::vector<router::sim::Request>> LoadRequests(const std::string& path,
                                                              router::sim::TrafficFormat format);

// Of a folder: clients 0 to `count` - 1. Nothing, and why on standard error, when one cannot be read.
std::optional<std::vector<router::sim::ServegenClient>> LoadServegen(const std::string& folder,
                                                                     uint32_t count);

// The exit code.
int WriteFigures(const StudyOptions& options, const nlohmann::json& figures);

}  // namespace bench
