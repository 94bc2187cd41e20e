// bench_scheduler: the scheduler's figures, ours beside the published; see bench/README.md.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "bench/scheduling/section.h"
#include "conf/text.h"
#include "gateway/net/standard_descriptors.h"

namespace {

using bench::scheduling::Section;
using bench::scheduling::Sections;

}  // namespace

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  CLI::App app{"The scheduler's figures, ours beside the published"};
  bench::scheduling::Options options;
  options.threads = std::max(1u, std::thread::hardware_concurrency());
  const char* const traces = std::getenv("TIDEGATE_TRACES");
  options.traces = traces != nullptr ? traces : "../shared/traces";
  std::vector<std::string> wanted;
  std::string json_file;
  std::string names;
  std::vector<std::string> all;
  for (const Section& section : Sections()) {
    all.emplace_back(section.name);
    names += fmt::format("\n  {:<10} {}", section.name, section.what);
  }
  app.add_option("sections", wanted, "what to measure; all, when none is named:" + names)
      ->check(CLI::IsMember(all));
  app.add_option("--json", json_file, "write all figures to this file");
  app.add_option("--traces", options.traces, "folder of the recorded traces, also as TIDEGATE_TRACES")
      ->capture_default_str();
  app.add_option(
      "--openb", options.openb,
      "openb: any folder with openb_node_list_*.csv and openb_pod_list_*.csv; default: openb of --traces");
  app.add_option("--seeds", options.seeds, "of what is random, means over so many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "for what is counted, not timed")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--only", options.only, "philly, gangs: the settings whose title has this in it");
  app.add_flag("--quick", options.quick, "one seed and few rounds, as a quick check");
  CLI11_PARSE(app, argc, argv);

  nlohmann::json out;
  int failed = 0;
  for (const Section& section : Sections()) {
    if (!wanted.empty() && std::ranges::find(wanted, section.name) == wanted.end()) continue;
    const absl::Status status = section.run(options, out[std::string(section.name)]);
    std::fflush(stdout);
    if (status.ok()) continue;
    fmt::print(stderr, "{}: {}\n", section.name, conf::Std(status.message()));
    ++failed;
  }
  if (!json_file.empty()) {
    std::ofstream file(json_file);
    file << out.dump(2) << '\n';
    if (!file.flush()) {
      fmt::print(stderr, "{}: cannot be written\n", json_file);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}
