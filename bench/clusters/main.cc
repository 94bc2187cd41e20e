// bench_cluster: what Kubernetes and a shared store cost; see bench/README.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "bench/clusters/section.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/standard_descriptors.h"

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  gateway::log::Init(gateway::log::Level::kError, false);
  CLI::App app{"What Kubernetes and a store that several gateways share cost"};
  bench::clusters::Options options;
  std::string json_file;
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--quick", options.quick, "a tenth of everything, as a quick check");
  app.add_option("--json", json_file, "write all figures to this file");
  app.add_subcommand("launcher", "starts of pods where there are 1,000, and a cluster with 50,000 of others");
  app.add_subcommand("picks", "picks among 1,000 endpoints: listed, and found in EndpointSlices");
  app.add_subcommand("leader",
                     "a gateway that leads with 1,000 workloads: its PostgreSQL, and its decisions");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // it takes minutes

  const std::string name = app.get_subcommands().front()->get_name();
  nlohmann::json figures;
  const absl::Status measured = name == "launcher" ? bench::clusters::MeasureLauncher(options, figures)
                                : name == "picks"  ? bench::clusters::MeasurePicks(options, figures)
                                                   : bench::clusters::MeasureLeader(options, figures);
  if (!measured.ok()) {
    fmt::print(stderr, "{}: {}\n", name, conf::Std(measured.message()));
    return 1;
  }
  if (json_file.empty()) return 0;
  std::ofstream out(json_file);
  out << nlohmann::json{{name, figures}}.dump(2) << "\n";
  out.close();
  if (out) return 0;
  fmt::print(stderr, "--json: {} cannot be written\n", json_file);
  return 1;
}
