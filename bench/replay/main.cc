// bench_replay: replays a trace of inference calls against a gateway and reports what its clients saw. Exit
// codes: 0 done (with --reconcile: and equal to the token), 1 not, 2 the call is wrong.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "bench/client/client.h"
#include "bench/replay/reconcile.h"
#include "bench/replay/replayer.h"
#include "bench/replay/traffic_file.h"
#include "conf/text.h"
#include "gateway/net/standard_descriptors.h"

namespace bench {
namespace {

namespace net = gateway::net;

struct Options {
  std::string trace;
  std::string format = "auto";
  std::string url;
  std::string key;
  std::vector<std::string> models{"chat-small"};
  double speed_up = 1;
  std::string from = "0";
  std::string window;
  size_t max_requests = 0;
  bool no_stream = false;
  double scale_tokens = 1;
  uint64_t seed = 1;
  std::string timeout = "10m";
  uint32_t retries = 0;
  std::string attempts;
  std::string json;
  std::string reconcile;
  std::string ledger;
};

int Fail(const absl::Status& status, int code) {
  fmt::print(stderr, "bench_replay: {}\n", conf::Std(status.message()));
  return code;
}

conf::Duration DurationOf(const std::string& flag, const std::string& text) {
  const auto duration = conf::ParseDuration(text);
  if (!duration)
    throw CLI::ValidationError(flag, fmt::format("\"{}\" is not a duration such as 30s or 10m", text));
  return *duration;
}

TrafficFormat FormatOf(const Options& options) {
  if (options.format == "auto") return router::sim::TrafficFormatOf(options.trace);
  return options.format == "azure" ? TrafficFormat::kAzure : TrafficFormat::kMooncake;
}

void DefineOptions(CLI::App& app, Options& options) {
  app.add_option("--trace", options.trace, "Trace file")->required()->check(CLI::ExistingFile);
  app.add_option("--format", options.format, "By default: azure for .csv, mooncake for all else")
      ->check(CLI::IsMember({"auto", "azure", "mooncake"}))
      ->capture_default_str();
  app.add_option("--url", options.url, "Base address, such as http://127.0.0.1:8080/v1")->required();
  app.add_option("--key", options.key, "API key: env:NAME or file:PATH");
  app.add_option("--model", options.models, "Model; several are called in turn")->capture_default_str();
  app.add_option("--speed-up", options.speed_up, "Divides the time between calls")
      ->check(CLI::PositiveNumber);
  app.add_option("--from", options.from, "Begin of the part to replay, since the trace's begin")
      ->capture_default_str();
  app.add_option("--window", options.window, "Length of the part to replay, in the trace's time");
  app.add_option("--max-requests", options.max_requests, "Calls at most");
  app.add_flag("--no-stream,!--stream", options.no_stream, "Whole answers instead of streams");
  app.add_option("--scale-tokens", options.scale_tokens, "Multiplies the length of prompts and answers")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Another seed gives other prompts")->capture_default_str();
  app.add_option("--timeout", options.timeout, "For a call")->capture_default_str();
  app.add_option("--retries", options.retries,
                 "Of one call: connections lost, 408, 409, 429 and 5xx, as the official SDKs do it")
      ->capture_default_str();
  app.add_option("--attempts", options.attempts, "File for what came of each try, a line of JSON each");
  app.add_option("--json", options.json, "File for the report");
  CLI::Option* command = app.add_option(
      "--reconcile", options.reconcile,
      "Command that prints the gateway's usage: \"tidegate usage --by model --json -c tidegate.yaml\"");
  app.add_option("--reconcile-ledger", options.ledger, "Or the directory of its ledger (state_dir/ledger)")
      ->excludes(command);
}

void ShowProgress(const Replayer& replayer) {
  const Replayer& r = replayer;
  fmt::print(stderr, "\r{} of {} sent, {} running, {:.0f} s to the last call  ", r.sent(), r.calls().size(),
             r.running(), conf::ToSeconds(r.TimeLeft()));
  std::fflush(stderr);
}

void WriteAttempt(std::ostream& out, const Attempt& attempt) {
  const Answer& answer = attempt.answer;
  nlohmann::ordered_json line = {{"id", attempt.id},
                                 {"model", attempt.model},
                                 {"ending", Name(answer.ending)},
                                 {"status", answer.status},
                                 {"code", answer.code},
                                 {"events", answer.events},
                                 {"ttft_us", conf::ToSeconds(answer.to_first) * 1e6},
                                 {"total_us", conf::ToSeconds(answer.total) * 1e6}};
  if (answer.usage) {
    line["input"] = answer.usage->input;
    line["cached"] = answer.usage->cached;
    line["output"] = answer.usage->output;
  }
  out << line.dump() << '\n';
}

using UsageReader = std::function<absl::StatusOr<TokensByModel>()>;

// The ledger commits in groups: what the client has seen may not be in it yet, so it is asked for a while.
absl::StatusOr<bool> Reconcile(const UsageReader& read, const TokensByModel& before,
                               const TokensByModel& client, nlohmann::ordered_json& json) {
  constexpr int kTries = 30;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<TokensByModel> after = read();
    if (!after.ok()) return after.status();
    bool equal = false;
    const std::string table = Compare(client, Difference(before, *after), equal);
    if (equal || attempt == kTries) {
      fmt::print("\n{}{}\n", table, equal ? "equal to the token" : "NOT EQUAL");
      json["reconciled"] = equal;
      return equal;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

int Replay(const Options& options) {
  TrafficWindow window{
      .from = DurationOf("--from", options.from), .length = {}, .max_calls = options.max_requests};
  if (!options.window.empty()) window.length = DurationOf("--window", options.window);
  const conf::Duration timeout = DurationOf("--timeout", options.timeout);
  absl::StatusOr<std::vector<Call>> calls = ReadTrafficFile(options.trace, FormatOf(options), window);
  if (!calls.ok()) return Fail(calls.status(), 2);
  if (calls->empty()) return Fail(absl::NotFoundError("no call of the trace is in this window"), 2);
  absl::StatusOr<std::string> key = options.key.empty() ? std::string() : ReadKey(options.key);
  if (!key.ok()) return Fail(key.status(), 2);
  absl::StatusOr<Target> target = MakeTarget(options.url, "chat/completions", *key);
  if (!target.ok()) return Fail(target.status(), 2);

  UsageReader read;
  if (!options.reconcile.empty()) read = [&] { return RunUsage(options.reconcile); };
  if (!options.ledger.empty()) read = [&] { return ReadLedger(options.ledger); };
  TokensByModel before;
  if (read) {
    absl::StatusOr<TokensByModel> usage = read();
    if (!usage.ok()) return Fail(usage.status(), 2);
    before = *std::move(usage);
  }

  net::Loop loop([](std::exception_ptr error) { std::rethrow_exception(error); });
  Client client(loop, *std::move(target), timeout);
  const Prompts prompts(options.seed, options.scale_tokens);
  ReplayOptions how{.speed_up = options.speed_up,
                    .stream = !options.no_stream,
                    .models = options.models,
                    .retries = options.retries};
  std::ofstream attempts;
  if (!options.attempts.empty()) {
    attempts.open(options.attempts);
    how.on_attempt = [&attempts](const Attempt& attempt) { WriteAttempt(attempts, attempt); };
  }
  Replayer replayer(loop, client, *calls, prompts, std::move(how));
  const bool terminal = isatty(STDERR_FILENO) == 1;
  replayer.Run([&] {
    if (terminal) ShowProgress(replayer);
  });
  if (terminal) fmt::print(stderr, "\n");

  if (!options.attempts.empty() && !attempts.flush())
    return Fail(absl::UnavailableError(options.attempts + ": cannot be written"), 1);
  Report& report = replayer.report();
  nlohmann::ordered_json json = report.ToJson();
  fmt::print("{}", report.ToText());
  bool equal = true;
  if (read) {
    const absl::StatusOr<bool> result = Reconcile(read, before, report.tokens(), json);
    if (!result.ok()) return Fail(result.status(), 1);
    equal = *result;
  }
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << json.dump(2) << '\n';
    if (!file.flush()) return Fail(absl::UnavailableError(options.json + ": cannot be written"), 1);
  }
  return equal ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Replays a trace of inference calls, at its own times, and reports what clients saw.",
               "bench_replay");
  DefineOptions(app, options);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    app.parse(argc, argv);
    return Replay(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  return bench::Main(argc, argv);
}
