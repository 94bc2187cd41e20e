// Shared by the benches over recorded traces in virtual time: the place of the traces, the traces as requests, and the
// file of all figures.
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

// Absent when the file cannot be read or has fewer than two requests; standard error then has the reason.
std::optional<std::vector<router::sim::Request>> LoadRequests(const std::string& path,
                                                              router::sim::TrafficFormat format);

// Clients 0 to `count` - 1 of a folder. Absent when one cannot be read; standard error then has the reason.
std::optional<std::vector<router::sim::ServegenClient>> LoadServegen(const std::string& folder,
                                                                     uint32_t count);

// The exit code.
int WriteFigures(const StudyOptions& options, const nlohmann::json& figures);

}  // namespace bench
