#include "gateway/cli/simulate/recorded_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "gateway/cli/commands.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/output.h"
#include "router/sim/offered_load.h"
#include "router/sim/servegen.h"
#include "router/sim/traffic.h"
#include "scheduler/engine/presets.h"

namespace gateway::cli {
namespace {

namespace serving = router::sim;
namespace fs = std::filesystem;
using Problems = std::vector<conf::Problem>;

constexpr size_t kMostCalls = 20'000'000;
constexpr uint32_t kMostClients = 1000;
constexpr const char* kFormats[] = {"auto", "azure", "mooncake", "servegen"};

struct Calls {
  std::vector<serving::Call> calls{};
  scheduler::io::LineReport report{};
};

fs::path ClientFile(const std::string& folder, uint32_t client, std::string_view what) {
  return fs::path(folder) / fmt::format("chunk-{}-{}", client, what);
}

// The clients that --clients names; without it, all clients as they are.
std::vector<serving::MixPart> PartsOf(const TrafficSource& source, Problems& problems) {
  std::vector<serving::MixPart> parts;
  for (const std::string& text : source.clients) {
    const auto part = serving::ParseMixPart(text);
    if (part && part->client < kMostClients) {
      parts.push_back(*part);
    } else {
      Refuse(problems, "--clients", text,
             fmt::format("\"{}\" must be CLIENT, CLIENT:TIMES or CLIENT:TIMES@SHIFT, such as 5:40@6h, the "
                         "client's number below {}",
                         text, kMostClients));
    }
  }
  for (uint32_t client = 0; source.clients.empty() && client < kMostClients; ++client) {
    std::error_code none;
    if (fs::exists(ClientFile(source.path, client, "trace.csv"), none)) parts.push_back({.client = client});
  }
  if (parts.empty() && problems.empty()) {
    Refuse(problems, source.path, "", "has no client: expected chunk-N-trace.csv and chunk-N-dataset.json");
  }
  return parts;
}

Calls ReadMix(const TrafficSource& source, serving::TrafficWindow window, Problems& problems) {
  Calls read;
  std::vector<serving::MixPart> parts = PartsOf(source, problems);
  std::vector<serving::ServegenClient> clients;
  std::vector<uint32_t> read_as;  // number of the client's files, by index of `clients`
  for (serving::MixPart& part : parts) {
    const auto known = std::ranges::find(read_as, part.client);
    const auto index = static_cast<uint32_t>(known - read_as.begin());
    if (known == read_as.end()) {
      const std::string trace = ClientFile(source.path, part.client, "trace.csv").string();
      const std::string dataset = ClientFile(source.path, part.client, "dataset.json").string();
      const auto trace_text = ReadFile(trace, problems);
      const auto dataset_text = ReadFile(dataset, problems);
      if (!trace_text || !dataset_text) continue;
      serving::LoadedClient loaded =
          serving::ReadServegenClient({trace, *trace_text}, {dataset, *dataset_text});
      if (!loaded.client) {
        std::ranges::move(loaded.report.problems, std::back_inserter(problems));
        continue;
      }
      read.report.lines += loaded.report.lines;
      read.report.left_out += loaded.report.left_out;
      for (conf::Problem& problem : loaded.report.problems) read.report.Add(std::move(problem));
      clients.push_back(*std::move(loaded.client));
      read_as.push_back(part.client);
    }
    part.client = index;
  }
  if (!problems.empty()) return read;
  window.max_calls = kMostCalls;
  auto calls = serving::Mixed(clients, parts, window, source.seed);
  if (!calls) {
    Refuse(problems, "--clients", "",
           fmt::format("more than {} requests; make --window or the clients' rates less", kMostCalls));
    return read;
  }
  read.calls = *std::move(calls);
  return read;
}

Calls ReadCalls(const TrafficSource& source, const serving::TrafficWindow& window, Problems& problems) {
  std::error_code none;
  const bool folder = fs::is_directory(source.path, none);
  if (source.format == "servegen" || (source.format == "auto" && folder)) {
    return ReadMix(source, window, problems);
  }
  if (!source.clients.empty()) {
    Refuse(problems, "--clients", "", "is of a folder of ServeGen's clients; this is a file of calls");
    return {};
  }
  const std::optional<std::string> text = ReadFile(source.path, problems);
  if (!text || !problems.empty()) return {};
  const serving::TrafficFormat format = source.format == "auto"    ? serving::TrafficFormatOf(source.path)
                                        : source.format == "azure" ? serving::TrafficFormat::kAzure
                                                                   : serving::TrafficFormat::kMooncake;
  serving::Traffic traffic = serving::ReadTraffic(*text, source.path, format, window);
  return {.calls = std::move(traffic.calls), .report = std::move(traffic.report)};
}

}  // namespace

CLI::Validator TrafficFormats() {
  return CLI::IsMember(std::set<std::string>(std::begin(kFormats), std::end(kFormats)));
}

std::optional<scheduler::engine::Profile> FindEngine(const std::string& name, Problems& problems) {
  const auto profile = scheduler::engine::FindPreset(name);
  if (!profile) {
    Refuse(problems, "--engine", name,
           fmt::format("\"{}\" must be a model and its GPUs, such as {}", name,
                       fmt::join(scheduler::engine::PresetNames(), ", ")));
  }
  return profile;
}

LoadedTraffic LoadTraffic(const TrafficSource& source, Problems problems) {
  serving::TrafficWindow window;
  ReadTime("--from", source.from, window.from, problems);
  if (!source.window.empty()) ReadTime("--window", source.window, window.length.emplace(), problems);
  const Calls read = ReadCalls(source, window, problems);
  if (!problems.empty()) return {.code = PrintProblems(problems, source.json)};
  if (read.report.left_out > 0) {
    PrintLeftOut(read.report);
    if (source.strict) {
      fmt::print(stderr, "tidegate: --strict: {} of {} rows cannot be simulated\n", read.report.left_out,
                 read.report.lines);
      return {.code = kUsage};
    }
  }
  RecordedTraffic traffic{.requests = serving::RequestsOf(read.calls),
                          .rows = read.report.lines,
                          .left_out = read.report.left_out};
  for (serving::Request& request : traffic.requests) request.at -= window.from;
  if (traffic.requests.empty() || traffic.requests.back().at <= conf::Duration::zero()) {
    fmt::print(stderr, "tidegate: {}: no requests are left to simulate\n", source.path);
    return {.code = kFailed};
  }
  return {.traffic = std::move(traffic)};
}

}  // namespace gateway::cli
