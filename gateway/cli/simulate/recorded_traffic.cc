#include "gateway/cli/simulate/recorded_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "conf/shown.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/option_problems.h"
#include "router/sim/offered_load.h"
#include "router/sim/servegen.h"
#include "router/sim/traffic.h"
#include "scheduler/engine/presets.h"
#include "scheduler/sim/traces/recognize.h"

namespace gateway::cli {
namespace {

namespace serving = router::sim;
namespace fs = std::filesystem;
using Problems = std::vector<conf::Problem>;

constexpr size_t kMostCalls = 20'000'000;
constexpr uint32_t kMostClients = 1000;
constexpr conf::Duration kMinute = std::chrono::minutes(1);

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

// The format of a file, or a problem when it is of another kind than requests, or of another format than told.
std::optional<serving::TrafficFormat> FormatOf(const TrafficSource& source, std::string_view text,
                                               Problems& problems) {
  using scheduler::sim::TraceFormat;
  const TraceFormat* const looks = scheduler::sim::RecognizeTrace(text);
  if (looks != nullptr && looks->of != TraceFormat::Of::kRequests) {
    Refuse(problems, source.path, {},
           fmt::format("looks like {}, not recorded requests; did you mean tidegate simulate jobs?",
                       looks->what));
    return std::nullopt;
  }
  const std::string_view told =
      source.format == "auto" ? std::string_view() : std::string_view(source.format);
  if (looks != nullptr && !told.empty() && looks->name != told) {
    Refuse(problems, source.path, {},
           fmt::format("looks like {} ({}), not {}; did you mean --format {}?", looks->name, looks->what,
                       told, looks->name));
    return std::nullopt;
  }
  const std::string_view name = !told.empty() ? told : looks != nullptr ? looks->name : std::string_view();
  if (name.empty()) return serving::TrafficFormatOf(source.path);
  return name == "azure" ? serving::TrafficFormat::kAzure : serving::TrafficFormat::kMooncake;
}

// A window may end in the minute of the last request, no later: nothing says what came after it.
void CheckWindow(const TrafficSource& source, const serving::TrafficWindow& window, conf::Duration last,
                 Problems& problems) {
  const conf::Duration end = kMinute * ((last + kMinute) / kMinute);
  if (!window.length || window.from + *window.length <= end) return;
  const conf::Duration most = std::max(conf::Duration::zero(), end - window.from);
  Refuse(
      problems, "--window", source.window,
      fmt::format("{} from {} is beyond the end of the trace, whose last request is at {}; give at most {}",
                  source.window, source.from, conf::InWords(std::chrono::floor<std::chrono::seconds>(last)),
                  conf::InWords(most)));
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
  const auto format = FormatOf(source, *text, problems);
  if (!format) return {};
  serving::Traffic traffic = serving::ReadTraffic(*text, source.path, *format, window);
  if (traffic.report.lines > traffic.report.left_out) CheckWindow(source, window, traffic.last, problems);
  return {.calls = std::move(traffic.calls), .report = std::move(traffic.report)};
}

}  // namespace

void AddSourceOptions(CLI::App& command, TrafficSource& source) {
  constexpr const char* kGroup = "Traffic";
  command.add_option("TRACE", source.path, "Recorded requests: a file, or a folder of ServeGen's clients")
      ->required()
      ->type_name("");
  command.add_option("--format", source.format, "auto, azure, mooncake or servegen")
      ->check(CLI::IsMember({"auto", "azure", "mooncake", "servegen"}))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--clients", source.clients,
                  "For servegen: CLIENT:TIMES@SHIFT,…; default: each client unchanged")
      ->delimiter(',')
      ->group(kGroup);
  command.add_option("--from", source.from, "Start of the part to simulate")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--window", source.window, "Its length, not beyond a file's end; clients repeat")
      ->group(kGroup);
}

void AddRunOptions(CLI::App& command, TrafficSource& source) {
  constexpr const char* kGroup = "Runs and output";
  command.add_option("--seed", source.seed, "Seed of everything random")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  command.add_flag("--strict", source.strict, "Fail when rows cannot be simulated")->group(kGroup);
  command.add_flag("--json", source.json, "Print JSON")->group(kGroup);
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
  if (!PrintLeftOut(read.report, source.strict)) return {.code = kUsage};
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
