// tidegate route explain: why a request went where it went, from the routing log. It makes the choices again
// with the gateway's own policies.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/net/url.h"
#include "gateway/routing/find.h"
#include "gateway/routing/parse.h"

namespace gateway::cli {
namespace {

using routing::LoggedPick;
using routing::LoggedRequest;

struct RouteOptions {
  AdminOptions admin;
  std::string log;
  std::string request;
  bool last = false;
};

// The newest first.
std::optional<std::vector<std::string>> FindLogs(const RouteOptions& options) {
  if (!options.log.empty()) return std::vector{options.log};
  const std::optional<Config> config = LoadOwnConfig(options.admin, options.admin.json);
  if (!config) return std::nullopt;
  return routing::LogPaths(config->server.state_dir, config->routing_log.files);
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
  std::vector<router::ScoredCandidate> rows = pick.trace.scored;
  std::ranges::sort(rows, {}, [&](const router::ScoredCandidate& seen) {
    return std::tuple(pick.names[static_cast<size_t>(seen.replica)] != pick.replica, seen.vetoed,
                      seen.terms.Sum(), seen.replica);
  });
  for (const router::ScoredCandidate& seen : rows) {
    const std::string& name = pick.names[static_cast<size_t>(seen.replica)];
    const router::CostTerms& terms = seen.terms;
    table.Add({name == pick.replica ? "*" : "", name, std::to_string(seen.cached),
               fmt::format("{:.0f}", seen.signals.requests), Millis(terms.wait), Millis(terms.compute),
               Millis(terms.decode), Millis(terms.others), Millis(terms.pressure), Millis(terms.silence),
               Millis(terms.distance), Millis(terms.adapter), Millis(terms.remote_prefill),
               Millis(terms.Sum()), seen.vetoed ? "saturated" : "no"});
  }
  return table.Render();
}

void PrintPick(const LoggedPick& pick, size_t number, size_t of) {
  fmt::print("\nchoice {} of {}: model {}, policy {}, prompt {} tokens, answer {} expected{}{}{}\n", number,
             of, pick.model, pick.policy, pick.trace.prompt_tokens, pick.trace.output_tokens,
             pick.part.empty() ? "" : ", for its " + pick.part,
             pick.track.empty() ? "" : ", track " + pick.track,
             pick.zone.empty() ? "" : ", zone " + pick.zone);
  if (!pick.trace.scored.empty()) fmt::print("milliseconds:\n{}", TableOf(pick));
  if (pick.replica.empty()) {
    fmt::print("no replica was chosen: {}\n", pick.reason);
    return;
  }
  fmt::print("{} was chosen of {}: {}{}\n", pick.replica, Counted(pick.trace.considered, "replica"),
             pick.reason, pick.trace.failed_open ? "; all were down, so health was ignored" : "");
  const routing::Replay replay = ReplayOf(pick);
  switch (replay.result) {
    case routing::Replay::Result::kAgrees:
      fmt::print("replay: this version makes the same choice\n");
      break;
    case routing::Replay::Result::kDiffers:
      fmt::print("replay: DIFFERS: this version chooses {} at {} ms; the log has {} ms for {}\n",
                 replay.replica, Millis(replay.score), Millis(pick.trace.score), pick.replica);
      break;
    case routing::Replay::Result::kNothingToDo:
      fmt::print("score: {:g}, in the policy's own unit; choices of this policy are not replayed\n",
                 pick.trace.score);
      break;
  }
}

void PrintPlain(const LoggedRequest& logged) {
  fmt::print("request {}, {}\n", logged.request, logged.time);
  for (size_t i = 0; i < logged.picks.size(); ++i) PrintPick(logged.picks[i], i + 1, logged.picks.size());
  const nlohmann::ordered_json& outcome = logged.line.at("outcome");
  fmt::print(
      "\nthe request ended with status {}, {}, after {:.1f} ms; {} of {} prompt tokens came from the cache\n",
      outcome.at("status").get<int>(), outcome.at("reason").get<std::string>(),
      outcome.at("total_ms").get<double>(), outcome.at("cached").get<uint64_t>(),
      outcome.at("input").get<uint64_t>());
}

// The line as it was logged, with the replay of each choice.
void PrintJson(LoggedRequest logged) {
  for (size_t i = 0; i < logged.picks.size(); ++i) {
    const routing::Replay replay = ReplayOf(logged.picks[i]);
    nlohmann::ordered_json& out = logged.line["picks"][i]["replay"];
    if (replay.result == routing::Replay::Result::kNothingToDo) continue;
    out["agrees"] = replay.result == routing::Replay::Result::kAgrees;
    out["replica"] = replay.replica;
    out["score"] = replay.score;
  }
  fmt::print("{}\n", AsText(logged.line));
}

int PrintRoute(const RouteOptions& options, LoggedRequest found) {
  const bool differs = std::ranges::any_of(found.picks, [](const LoggedPick& pick) {
    return ReplayOf(pick).result == routing::Replay::Result::kDiffers;
  });
  options.admin.json ? PrintJson(std::move(found)) : PrintPlain(found);
  return differs ? kFailed : kOk;
}

int ExplainThere(const RouteOptions& options) {
  const absl::StatusOr<nlohmann::ordered_json> answer =
      AskAdmin(options.admin, "GET",
               "/admin/v1/routes/" + (options.last ? "last" : net::PercentEncode(options.request)));
  if (!answer.ok()) return Fail(answer.status());
  auto found = routing::ParseRoute(answer->value("line", nlohmann::ordered_json()).dump());
  if (!found.ok()) return Fail(found.status());
  if (!*found) return Fail(absl::DataLossError("the gateway's answer is not a line of a routing log"));
  return PrintRoute(options, **std::move(found));
}

int Explain(const RouteOptions& options) {
  if (options.request.empty() == !options.last) {
    fmt::print(stderr, "tidegate: give the id of one request (x-request-id of its answer), or --last\n");
    return kUsage;
  }
  if (options.log.empty() && AsksGateway(options.admin)) return ExplainThere(options);
  const auto paths = FindLogs(options);
  if (!paths) return kUsage;
  for (const std::string& path : *paths) {
    if (options.log.empty() && !std::filesystem::exists(path)) {
      fmt::print(
          stderr,
          "tidegate: {}: there is no routing log yet. Write routing_log: {{sample: 1}} into the "
          "configuration, reload it, and send a request; the log then has each request with its choices\n",
          path);
      return kFailed;
    }
    absl::StatusOr<std::optional<LoggedRequest>> found = routing::FindRequest(path, options.request);
    if (!found.ok()) return Fail(found.status());
    if (*found) return PrintRoute(options, **std::move(found));
  }
  fmt::print(stderr, "tidegate: {}: {}; the log has only a sample of the requests, see routing_log.sample\n",
             paths->front(),
             options.last ? "the log is empty" : fmt::format("{} is not in the log", options.request));
  return kFailed;
}

}  // namespace

void AddRoute(CLI::App& app, Run& run) {
  CLI::App* route = app.add_subcommand("route", "Show why requests went where they went");
  route->require_subcommand(1);
  CLI::App* command = route->add_subcommand("explain", "Show the choices for one request, and repeat them");
  auto options = std::make_shared<RouteOptions>();
  options->admin.config = AddConfigOption(*command);
  AddGatewayOptions(*command, options->admin);
  command->add_option("request", options->request, "The id of the request: x-request-id of its answer");
  command->add_flag("--last", options->last, "The last request in the log");
  command->add_option("--log", options->log, "A log file, instead of the one in state_dir");
  command->add_flag("--json", options->admin.json, "Print the logged line and each replayed choice as JSON");
  command->footer(
      "Exit code 1 when the request is not in the log, or when this version would choose differently.\n\n"
      "Examples:\n"
      "  tidegate route explain --last\n"
      "  tidegate route explain req_0123456789abcdef0123456789abcdef --json\n"
      "  tidegate route explain --last --gateway https://tidegate.example.com:9090\n"
      "  tidegate route explain --log /backup/routing.1.jsonl --last");
  command->callback([options, &run] { run = [options] { return Explain(*options); }; });
}

}  // namespace gateway::cli
