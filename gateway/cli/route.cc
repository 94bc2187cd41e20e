// tidegate route explain: why a request went where it went, from the routing log. Its choices are made again
// by the law that the gateway itself goes by.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/routing/files.h"
#include "gateway/routing/parse.h"

namespace gateway::cli {
namespace {

using routing::LoggedPick;
using routing::LoggedRequest;

constexpr size_t kMaxFile = size_t{1} << 30;

struct RouteOptions {
  std::shared_ptr<std::string> config;
  std::string log;
  std::string request;
  bool last = false;
  bool json = false;
};

// The newest first.
std::optional<std::vector<std::string>> FindLogs(const RouteOptions& options) {
  if (!options.log.empty()) return std::vector{options.log};
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return std::nullopt;
  std::vector<std::string> paths;
  for (uint32_t n = 0; n < std::max(config->routing_log.files, 1u); ++n) {
    std::string path = routing::LogPath(config->server.state_dir, n);
    if (std::filesystem::exists(path)) paths.push_back(std::move(path));
  }
  if (paths.empty()) paths.push_back(routing::LogPath(config->server.state_dir, 0));
  return paths;
}

// The last line about the wanted request, or about any. Lines that cannot be read, torn by a crash, are
// passed over.
std::optional<LoggedRequest> FindIn(std::string_view text, const RouteOptions& options) {
  while (!text.empty()) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    const size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
    const std::string_view line = text.substr(begin);
    text = text.substr(0, begin);
    if (!options.request.empty() && line.find(options.request) == std::string_view::npos) continue;
    auto logged = routing::ParseRoute(line);
    if (!logged.ok() || !*logged) continue;
    if (options.request.empty() || (*logged)->request == options.request) return *std::move(logged);
  }
  return std::nullopt;
}

std::string Millis(double seconds) {
  return fmt::format("{:.3f}", seconds * 1e3);
}

std::string TableOf(const LoggedPick& pick) {
  Table table({{""},
               {"REPLICA"},
               {"CACHED", true},
               {"REQUESTS", true},
               {"WAIT", true},
               {"COMPUTE", true},
               {"DECODE", true},
               {"OTHERS", true},
               {"PRESSURE", true},
               {"SILENCE", true},
               {"DISTANCE", true},
               {"ADAPTER", true},
               {"HANDOVER", true},
               {"TOTAL", true},
               {"VETOED"}});
  std::vector<router::Seen> rows = pick.trace.seen;
  std::ranges::sort(rows, {}, [&](const router::Seen& seen) {
    return std::tuple(pick.names[static_cast<size_t>(seen.replica)] != pick.replica, seen.vetoed,
                      seen.terms.Sum(), seen.replica);
  });
  for (const router::Seen& seen : rows) {
    const std::string& name = pick.names[static_cast<size_t>(seen.replica)];
    const router::CostTerms& terms = seen.terms;
    table.Add({name == pick.replica ? "*" : "", name, std::to_string(seen.cached),
               fmt::format("{:.0f}", seen.signals.requests), Millis(terms.wait), Millis(terms.compute),
               Millis(terms.decode), Millis(terms.others), Millis(terms.pressure), Millis(terms.silence),
               Millis(terms.distance), Millis(terms.adapter), Millis(terms.handover), Millis(terms.Sum()),
               seen.vetoed ? "saturated" : "no"});
  }
  return table.Render();
}

void PrintPick(const LoggedPick& pick, size_t number, size_t of) {
  fmt::print("\nchoice {} of {}: model {}, policy {}, prompt {} tokens, {} expected{}{}{}\n", number, of,
             pick.model, pick.policy, pick.trace.prompt_tokens, pick.trace.output_tokens,
             pick.part.empty() ? "" : ", for its " + pick.part,
             pick.track.empty() ? "" : ", track " + pick.track,
             pick.zone.empty() ? "" : ", zone " + pick.zone);
  if (!pick.trace.seen.empty()) fmt::print("milliseconds:\n{}", TableOf(pick));
  if (pick.replica.empty()) {
    fmt::print("nobody was chosen: {}\n", pick.reason);
    return;
  }
  fmt::print("{} was chosen of {} looked at: {}{}\n", pick.replica, pick.trace.considered, pick.reason,
             pick.trace.failed_open ? "; all were down, so health was not asked" : "");
  const routing::Replay replay = ReplayOf(pick);
  switch (replay.verdict) {
    case routing::Replay::Verdict::kAgrees:
      fmt::print("replay: agrees\n");
      break;
    case routing::Replay::Verdict::kDiffers:
      fmt::print("replay: DIFFERS: this version chooses {} at {} ms; {} ms is logged for {}\n",
                 replay.replica, Millis(replay.score), Millis(pick.trace.score), pick.replica);
      break;
    case routing::Replay::Verdict::kNothingToDo:
      fmt::print("score: {:g}, in the policy's own unit; there is nothing to be reckoned again\n",
                 pick.trace.score);
      break;
  }
}

void PrintPlain(const LoggedRequest& logged) {
  fmt::print("request {}, {}\n", logged.request, logged.time);
  for (size_t i = 0; i < logged.picks.size(); ++i) PrintPick(logged.picks[i], i + 1, logged.picks.size());
  const nlohmann::ordered_json& outcome = logged.line.at("outcome");
  fmt::print("\nit ended with status {}, {}, after {:.1f} ms; {} of {} prompt tokens came from the cache\n",
             outcome.at("status").get<int>(), outcome.at("reason").get<std::string>(),
             outcome.at("total_ms").get<double>(), outcome.at("cached").get<uint64_t>(),
             outcome.at("input").get<uint64_t>());
}

// The line, and with each of its choices what it comes to now.
void PrintJson(LoggedRequest logged) {
  for (size_t i = 0; i < logged.picks.size(); ++i) {
    const routing::Replay replay = ReplayOf(logged.picks[i]);
    nlohmann::ordered_json& out = logged.line["picks"][i]["replay"];
    if (replay.verdict == routing::Replay::Verdict::kNothingToDo) continue;
    out["agrees"] = replay.verdict == routing::Replay::Verdict::kAgrees;
    out["replica"] = replay.replica;
    out["score"] = replay.score;
  }
  fmt::print("{}\n", AsText(logged.line));
}

int Explain(const RouteOptions& options) {
  if (options.request.empty() == !options.last) {
    fmt::print(stderr, "tidegate: name one request by its id (x-request-id of its answer), or give --last\n");
    return kUsage;
  }
  const auto paths = FindLogs(options);
  if (!paths) return kUsage;
  for (const std::string& path : *paths) {
    const absl::StatusOr<std::string> text = ReadWhole(path, kMaxFile);
    if (!text.ok()) {
      fmt::print(stderr, "tidegate: {}: {}\n", path, conf::Std(text.status().message()));
      return kFailed;
    }
    std::optional<LoggedRequest> found = FindIn(*text, options);
    if (!found) continue;
    const bool differs = std::ranges::any_of(found->picks, [](const LoggedPick& pick) {
      return ReplayOf(pick).verdict == routing::Replay::Verdict::kDiffers;
    });
    options.json ? PrintJson(*std::move(found)) : PrintPlain(*found);
    return differs ? kFailed : kOk;
  }
  fmt::print(stderr, "tidegate: {}: {}; decisions are sampled, by routing_log.sample\n", paths->front(),
             options.last ? "no decision is there" : fmt::format("{} is not there", options.request));
  return kFailed;
}

}  // namespace

void AddRoute(CLI::App& app, Run& run) {
  CLI::App* route = app.add_subcommand("route", "Show why requests went where they went");
  route->require_subcommand(1);
  CLI::App* command = route->add_subcommand("explain", "Make the choices of one request again, from the log");
  auto options = std::make_shared<RouteOptions>();
  options->config = AddConfigOption(*command);
  command->add_option("request", options->request, "Its id, as x-request-id of the answer says");
  command->add_flag("--last", options->last, "The last one that was logged instead");
  command->add_option("--log", options->log, "This file, instead of the configuration's state folder");
  command->add_flag("--json", options->json, "Print the logged line, with each choice made again");
  command->footer(
      "Exit code 1 when the request is not in the log, or a choice comes out otherwise now.\n\n"
      "Examples:\n"
      "  tidegate route explain --last\n"
      "  tidegate route explain req_0123456789abcdef0123456789abcdef --json\n"
      "  tidegate route explain --log /backup/routing.1.jsonl --last");
  command->callback([options, &run] { run = [options] { return Explain(*options); }; });
}

}  // namespace gateway::cli
