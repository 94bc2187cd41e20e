// bench_load: a closed-loop load of chat completions from one thread: so many callers, each with one call at
// a time. Prints what they saw as JSON. Exit codes: 0 no call failed, 1 some did, 2 the call is wrong.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/client/client.h"
#include "bench/client/samples.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/standard_descriptors.h"

namespace bench {
namespace {

namespace net = gateway::net;

struct Options {
  std::string url;
  std::string key;
  std::vector<std::string> headers;
  std::string model = "chat-small";
  size_t concurrency = 1;
  uint64_t requests = 0;  // in all; 0: no bound
  double duration = 0;    // seconds in which calls begin; 0: no bound
  double timeout = 60;
  bool stream = false;
  uint32_t tokens = 90;
  size_t prompt_bytes = 900;
};

std::string MakeBody(const Options& options) {
  std::string prompt;
  while (prompt.size() < options.prompt_bytes) prompt += "hello world ";
  nlohmann::ordered_json body{{"model", options.model},
                              {"messages", {{{"role", "user"}, {"content", prompt}}}},
                              {"max_tokens", options.tokens},
                              {"ignore_eos", true}};
  if (options.stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  return body.dump();
}

class Load {
 public:
  Load(const Options& options, Target target)
      : options_(options),
        body_(MakeBody(options)),
        client_(loop_, std::move(target),
                std::chrono::duration_cast<conf::Duration>(std::chrono::duration<double>(options.timeout))) {}

  nlohmann::ordered_json Run() {
    begin_ = net::Now();
    for (size_t i = 0; i < options_.concurrency; ++i) loop_.tasks.Spawn(Caller());
    loop_.Stop();
    loop_.Run();
    return Report();
  }

  uint64_t errors() const { return calls_ - done_; }

 private:
  net::Task<void> Caller() {
    while ((options_.requests == 0 || calls_ < options_.requests) &&
           (options_.duration == 0 || conf::ToSeconds(net::Now() - begin_) < options_.duration)) {
      ++calls_;
      const Answer answer = co_await client_.Call(body_);
      end_ = net::Now();
      ++endings_[std::string(Name(answer.ending))];
      if (answer.ending != Ending::kDone) continue;
      ++done_;
      events_ += answer.events;
      total_.Add(answer.total);
      to_first_.Add(answer.to_first);
      max_gap_.Add(answer.max_gap);
    }
  }

  nlohmann::ordered_json Report() {
    const double seconds = conf::ToSeconds(end_ - begin_);
    nlohmann::ordered_json out{{"calls", calls_},
                               {"done", done_},
                               {"errors", errors()},
                               {"endings", endings_},
                               {"seconds", seconds},
                               {"calls_per_second", static_cast<double>(done_) / seconds},
                               {"events", events_},
                               {"total", total_.Summary()},
                               {"to_first", to_first_.Summary()}};
    if (options_.stream) out["max_gap"] = max_gap_.Summary();
    return out;
  }

  const Options& options_;
  const std::string body_;
  net::Loop loop_{[](std::exception_ptr error) { std::rethrow_exception(error); }};
  Client client_;
  conf::TimePoint begin_;
  conf::TimePoint end_;
  uint64_t calls_ = 0;
  uint64_t done_ = 0;
  uint64_t events_ = 0;
  std::map<std::string, uint64_t> endings_;
  Samples total_;
  Samples to_first_;
  Samples max_gap_;
};

absl::StatusOr<Target> TargetOf(const Options& options) {
  std::string key;
  if (!options.key.empty()) {
    absl::StatusOr<std::string> read = ReadKey(options.key);
    if (!read.ok()) return read.status();
    key = *std::move(read);
  }
  absl::StatusOr<Target> target = MakeTarget(options.url, "chat/completions", key);
  if (!target.ok()) return target.status();
  for (const std::string& header : options.headers) {
    const size_t colon = header.find(':');
    if (colon == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format("--header {}: wanted NAME:VALUE", header));
    }
    target->headers.emplace_back(header.substr(0, colon), header.substr(colon + 1));
  }
  return target;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("A closed-loop load of chat completions from one thread.", "bench_load");
  app.add_option("--url", options.url, "Base address, such as http://127.0.0.1:8080/v1")->required();
  app.add_option("--key", options.key, "API key: env:NAME or file:PATH");
  app.add_option("--header", options.headers, "One more header, NAME:VALUE");
  app.add_option("--model", options.model, "Model")->capture_default_str();
  app.add_option("-c,--concurrency", options.concurrency, "Callers")->check(CLI::PositiveNumber);
  CLI::Option* requests = app.add_option("-n,--requests", options.requests, "Calls in all");
  CLI::Option* duration = app.add_option("-d,--duration", options.duration, "Seconds in which calls begin");
  app.add_option("--timeout", options.timeout, "Seconds for a call")->check(CLI::PositiveNumber);
  app.add_flag("--stream", options.stream, "Streamed answers");
  app.add_option("--tokens", options.tokens, "Length of an answer")->check(CLI::PositiveNumber);
  app.add_option("--prompt-bytes", options.prompt_bytes, "Length of the prompt");
  try {
    app.parse(argc, argv);
    if (!*requests && !*duration) throw CLI::RequiredError("--requests or --duration");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  absl::StatusOr<Target> target = TargetOf(options);
  if (!target.ok()) {
    fmt::print(stderr, "bench_load: {}\n", conf::Std(target.status().message()));
    return 2;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::signal(SIGPIPE, SIG_IGN);
  Load load(options, *std::move(target));
  fmt::print("{}\n", load.Run().dump());
  return load.errors() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  return bench::Main(argc, argv);
}
