#include "bench/replay/study.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/replay/traffic_file.h"
#include "conf/text.h"
#include "router/sim/offered_load.h"

namespace bench {

void AddStudyOptions(CLI::App& app, StudyOptions& options) {
  const char* const folder = std::getenv("TIDEGATE_TRACES");
  options.traces = folder != nullptr ? folder : "../shared/traces";
  app.add_option("--json", options.json_file, "write all figures to this file");
  app.add_option("--traces", options.traces, "folder of the recorded traces, also as TIDEGATE_TRACES")
      ->capture_default_str();
}

std::optional<std::vector<router::sim::Request>> LoadRequests(const std::string& path,
                                                              router::sim::TrafficFormat format) {
  const auto calls = ReadTrafficFile(path, format, {});
  if (!calls.ok()) {
    fmt::print(stderr, "{}\n", conf::Std(calls.status().message()));
    return std::nullopt;
  }
  std::vector<router::sim::Request> requests = router::sim::RequestsOf(*calls);
  if (requests.size() < 2) {
    fmt::print(stderr, "{}: has no requests\n", path);
    return std::nullopt;
  }
  return requests;
}

std::optional<std::vector<router::sim::ServegenClient>> LoadServegen(const std::string& folder,
                                                                     uint32_t count) {
  const auto read = [](const std::string& path) -> std::string {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  };
  std::vector<router::sim::ServegenClient> clients;
  clients.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const std::string trace = fmt::format("{}/chunk-{}-trace.csv", folder, i);
    const std::string dataset = fmt::format("{}/chunk-{}-dataset.json", folder, i);
    const std::string rows = read(trace);
    const std::string histograms = read(dataset);
    router::sim::LoadedClient loaded = router::sim::ReadServegenClient({trace, rows}, {dataset, histograms});
    if (!loaded.client || loaded.report.left_out > 0) {
      fmt::print(stderr, "{}\n", conf::ToString(loaded.report.problems.front()));
      return std::nullopt;
    }
    clients.push_back(*std::move(loaded.client));
  }
  return clients;
}

int WriteFigures(const StudyOptions& options, const nlohmann::json& figures) {
  if (options.json_file.empty()) return 0;
  std::ofstream file(options.json_file);
  file << figures.dump(2) << '\n';
  if (file.flush()) return 0;
  fmt::print(stderr, "{}: cannot be written\n", options.json_file);
  return 1;
}

}  // namespace bench
