// Broker: the process that starts runs, so that the gateway itself needs no right to change users.
//
// It is split off before the gateway has read its configuration, opened a file or made a thread. The gateway sends it
// once the users that runs may have. From then on it does for the gateway what a launcher needs (RunHost) and nothing
// else: it runs no program except tidegate-run, starts nothing as root or as the gateway's user, and signals only
// processes of those users. It ends with the gateway; runs continue.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/net/process_channel.h"
#include "plugins/launchers/run_host.h"

namespace plugins::launchers {

class Broker {
 public:
  // Whether this process has the rights for one.
  static bool MaySplit();

  // Null: this process has not the rights, or there is no room for another. Before any thread is made.
  static std::unique_ptr<Broker> Split();

  // The host of runs that are marked with `token` and become one of `users`, below the program `wrapper`,
  // which is this process' user. Once. NotFound, InvalidArgument: a user that is none, or may not be.
  absl::StatusOr<std::unique_ptr<RunHost>> MakeHost(const std::string& token, const std::string& wrapper,
                                                    std::vector<std::string> users);

  pid_t pid() const { return pid_; }

 private:
  Broker(pid_t pid, gateway::net::ProcessChannel channel)
      : pid_(pid), channel_(std::make_unique<gateway::net::ProcessChannel>(std::move(channel))) {}

  const pid_t pid_;
  std::unique_ptr<gateway::net::ProcessChannel> channel_;  // null: it was handed over
};

// The main function of the broker's process: serves until the other end of the channel is gone.
void ServeBroker(gateway::net::ProcessChannel& channel);

}  // namespace plugins::launchers
