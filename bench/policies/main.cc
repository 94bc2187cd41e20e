// bench_routing: every routing policy over a recorded trace, in virtual time; see bench/README.md.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "bench/policies/backlog.h"
#include "bench/policies/report.h"
#include "bench/replay/study.h"
#include "gateway/net/standard_descriptors.h"
#include "scheduler/engine/presets.h"

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  CLI::App app{"Every routing policy over a recorded trace, in virtual time"};
  bench::StudyOptions study;
  std::string trace;
  std::string engine = "llama-3.3-70b-4xh200";
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  bool quick = false;
  bool azure = false;
  bool backlog = false;
  uint32_t token_time_ms = 0;
  bench::AddStudyOptions(app, study);
  app.add_option("--trace", trace, "another trace than Mooncake's conversations: a file in its form");
  app.add_flag("--azure", azure, "--trace is in Azure's form, in which prompts share nothing");
  app.add_option("--engine", engine, "the replicas' engine, a preset's name")->capture_default_str();
  app.add_option("--threads", threads, "the figures do not depend on it")->check(CLI::Range(1, 256));
  app.add_flag("--backlog", backlog,
               "batch lines beside Azure's conversations instead: what they cost and use");
  app.add_option("--token-time", token_time_ms,
                 "with --backlog: the longest time between two tokens beside lines, in ms; 0: any")
      ->check(CLI::Range(0, 60'000));
  app.add_flag("--quick", quick, "8 replicas at two loads, as a quick check");
  CLI11_PARSE(app, argc, argv);

  const auto profile = scheduler::engine::FindPreset(engine);
  if (!profile) {
    fmt::print(stderr, "--engine: no preset is called \"{}\"; there are, among others: {}\n", engine,
               fmt::join(scheduler::engine::PresetNames(), ", "));
    return 2;
  }
  if (trace.empty()) {
    trace = study.traces +
            (backlog ? "/azure_llm/AzureLLMInferenceTrace_conv.csv" : "/mooncake/conversation_trace.jsonl");
    azure = backlog;
  }
  using router::sim::TrafficFormat;
  const auto requests = bench::LoadRequests(trace, azure ? TrafficFormat::kAzure : TrafficFormat::kMooncake);
  if (!requests) return 1;

  if (backlog) {
    const std::vector<bench::policies::BacklogResult> results =
        bench::policies::RunBacklog(*requests, router::sim::Simulated(*profile),
                                    std::chrono::milliseconds(token_time_ms), quick, threads);
    bench::policies::PrintBacklog(results);
    nlohmann::json out = {{"trace", trace}, {"engine", engine}, {"requests", requests->size()}};
    for (const bench::policies::BacklogResult& result : results)
      out["backlog"].push_back(bench::policies::ToJson(result));
    return bench::WriteFigures(study, out);
  }
  const std::vector<bench::policies::Scenario> scenarios = bench::policies::Scenarios(quick);
  const std::vector<bench::policies::Result> results =
      bench::policies::RunAll(scenarios, *requests, router::sim::Simulated(*profile), threads);
  nlohmann::json out = {{"trace", trace}, {"engine", engine}, {"requests", requests->size()}};
  for (const bench::policies::Result& result : results) {
    bench::policies::PrintTable(result);
    out["scenarios"].push_back(bench::policies::ToJson(result));
  }
  fmt::print("\n");
  for (const bench::policies::Target& target : bench::policies::TargetsOf(results)) {
    fmt::print("{:7} {:60} {:5.2f} ({} {:.2f})\n", target.met() ? "met" : "MISSED", target.what,
               target.reached, target.at_most ? "at most" : "at least", target.bound);
    out["targets"].push_back(
        {{"what", target.what}, {"bound", target.bound}, {"reached", target.reached}, {"met", target.met()}});
  }
  return bench::WriteFigures(study, out);
}
