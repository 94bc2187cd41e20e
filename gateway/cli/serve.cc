// tidegate serve: runs the gateway until a signal stops it.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/problems.h"
#include "gateway/config/load.h"
#include "gateway/log.h"
#include "gateway/net/bus_error.h"
#include "gateway/process/become_user.h"
#include "gateway/process/process.h"
#include "gateway/process/start_check.h"
#include "plugins/launchers/broker/broker.h"

namespace gateway::cli {
namespace {

// Raises the limit of file descriptors to the system's maximum: a request may hold two.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// A signal that arrives during the start counts once the gateway has started; a second one that stops it ends it
// at once.
volatile std::sig_atomic_t stopped_early = 0;
volatile std::sig_atomic_t reloaded_early = 0;
void ReloadEarly(int) {
  reloaded_early = 1;
}
void StopEarly(int signal) {
  stopped_early = 1;
  std::signal(signal, SIG_DFL);
}

class Signals {
 public:
  explicit Signals(Process& process)
      : process_(process), set_(process.control().io, SIGTERM, SIGINT, SIGHUP) {
    // While it drains, a signal that stops it ends the process at once, as the system does by default.
    process_.OnDrain([this] { Close(); });
    if (stopped_early == 0) {
      Wait();
      if (reloaded_early != 0) process_.control().Post([this] { process_.StartReload("SIGHUP"); });
    } else {
      Close();
      // Readiness was not announced yet.
      process_.control().Post([this] { process_.Stop(conf::Duration::zero()); });
    }
  }

 private:
  void Wait() {
    set_.async_wait([this](net::ErrorCode error, int signal) {
      if (error) return;
      if (signal == SIGHUP) {
        process_.StartReload("SIGHUP");
      } else {
        process_.Stop(DelayOf(signal));
      }
      Wait();
    });
  }

  void Close() {
    net::ErrorCode ignored;
    set_.clear(ignored);
    set_.cancel(ignored);
    std::signal(SIGHUP, SIG_IGN);
  }

  // A supervisor's signal: load balancers may need a moment to see it. At a terminal none does.
  conf::Duration DelayOf(int signal) const {
    return signal == SIGTERM ? process_.runtime()->config().server.shutdown_delay : conf::Duration::zero();
  }

  Process& process_;
  boost::asio::signal_set set_;
};

int Serve(const std::string& path) {
  RaiseDescriptorLimit();
  net::ExplainBusErrors();
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, StopEarly);
  std::signal(SIGHUP, ReloadEarly);
  // First of all: nothing that it may not have is there yet.
  std::unique_ptr<plugins::launchers::Broker> broker = plugins::launchers::Broker::Split();
  LoadResult loaded = LoadConfig(path);
  if (!loaded.config) return PrintProblems(loaded.problems, false);
  const config::Log& log = loaded.config->telemetry.log;
  log::Init(log.level, log.format == config::LogFormat::kJson);
  absl::Status ready = CheckPortsFree(*loaded.config);
  if (ready.ok()) ready = BecomeUser(loaded.config->server);
  if (!ready.ok()) {
    fmt::print(stderr, "tidegate: {}\n", conf::Std(ready.message()));
    return kFailed;
  }
  KeepMemoryPrivate();
  config::Address admin = loaded.config->server.admin;
  std::optional<config::Address> console = loaded.config->server.console;
  const std::string host = loaded.config->server.listen.front().host;
  absl::StatusOr<std::unique_ptr<Process>> process =
      Process::Start(*std::move(loaded.config), path, std::move(broker));
  if (!process.ok()) {
    log::Flush();
    fmt::print(stderr, "tidegate: {}\n", conf::Std(process.status().message()));
    return kFailed;
  }
  malloc_trim(0);  // what reading journals and configuration took is not needed again
  admin.port = (*process)->admin_port();
  if (console) console->port = (*process)->console_port();
  {
    Signals signals(**process);
    log::Info("serving", {{"listen", fmt::format("{}:{}", host, (*process)->port())},
                          {"admin", config::ToString(admin)},
                          {"models", (*process)->runtime()->models().size()},
                          {"config", (*process)->runtime()->hash()},
                          {"version", TIDEGATE_VERSION}});
    if (console) log::Info("serving people", {{"console", config::ToString(*console)}});
    (*process)->Run();
  }
  process->reset();
  log::Info("stopped");
  log::Flush();
  return kOk;
}

}  // namespace

void AddServe(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "serve", "Run the gateway until SIGTERM or ctrl-C; SIGHUP reloads the configuration");
  auto path = std::make_shared<std::string>("tidegate.yaml");
  command->add_option("-c,--config", *path, "Configuration file")->capture_default_str();
  command->footer("Example:\n  tidegate serve --config tidegate.yaml");
  command->callback([path, &run] { run = [path] { return Serve(*path); }; });
}

}  // namespace gateway::cli
