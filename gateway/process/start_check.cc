#include "gateway/process/start_check.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "conf/text.h"
#include "gateway/config/state_files.h"
#include "gateway/control/launching/run_users.h"
#include "gateway/log.h"
#include "gateway/net/loop.h"
#include "gateway/net/resource_owner.h"
#include "gateway/net/transport.h"
#include "gateway/process/open_state.h"
#include "gateway/store/followed.h"
#include "gateway/store/postgres_store.h"
#include "plugins/launchers/broker/broker.h"

namespace gateway {
namespace {

std::string UserName() {
  const passwd* const entry = getpwuid(geteuid());
  return entry == nullptr ? std::to_string(geteuid()) : entry->pw_name;
}

std::string WhyNot(int error) {
  return std::generic_category().message(error);
}

// serve makes what is missing of the folder, and writes into it.
void CheckStateDir(const config::Server& server, std::vector<StartFinding>& out) {
  const std::filesystem::path folder = std::filesystem::absolute(server.state_dir);
  const auto found = [&](std::string message, bool stops) {
    out.push_back({"/server/state_dir", server.state_dir, std::move(message), stops});
  };
  std::filesystem::path there = folder;
  struct stat entry{};
  while (stat(there.c_str(), &entry) != 0) {
    if (errno == ENOTDIR || (errno == ENOENT && there.has_parent_path() && there != there.parent_path())) {
      there = there.parent_path();
      continue;
    }
    return found(fmt::format("cannot be examined: {}", WhyNot(errno)), false);
  }
  if (!S_ISDIR(entry.st_mode)) {
    return found(there == folder ? "is not a folder; name another, or move the file away"
                                 : fmt::format("cannot be created, since {} is not a folder", there.native()),
                 true);
  }
  if (access(there.c_str(), W_OK | X_OK | (there == folder ? R_OK : 0)) == 0) return;
  const int error = errno;
  const std::string what = there == folder ? "" : fmt::format("cannot be created in {}: ", there.native());
  if (error == EROFS) return found(what + "the file system is read-only", true);
  found(fmt::format("{}the user {} may not write there, so serve cannot run as this user; give the folder to "
                    "the user of the gateway",
                    what, UserName()),
        false);
}

absl::Status CheckPortFree(const config::Address& address) {
  return address.port == 0 ? absl::OkStatus() : net::ListeningSocket::Open(ToString(address), 1).status();
}

void CheckPorts(const Config& config, std::vector<StartFinding>& out) {
  const auto check = [&](const std::string& pointer, const config::Address& address) {
    if (const absl::Status free = CheckPortFree(address); !free.ok())
      out.push_back({pointer, ToString(address), std::string(conf::Std(free.message())), false});
  };
  for (const config::Address& address : config.server.listen) check("/server/listen", address);
  check("/server/admin", config.server.admin);
  if (config.server.console) check("/server/console", *config.server.console);
}

// serve makes the tables that are missing.
void CheckState(const Config& config, std::vector<StartFinding>& out) {
  if (!config.state) return;
  absl::StatusOr<store::PostgresStoreOptions> options = PostgresOptions(*config.state);
  if (!options.ok()) {
    out.push_back({"/state/password", "", std::string(conf::Std(options.status().message())), true});
    return;
  }
  net::Loop loop([](const std::exception_ptr& thrown) { log::Exception("check", thrown); });
  options->makes_schema = false;
  absl::Status reached;
  {
    store::PostgresStore store(loop, *std::move(options));
    reached = net::Await(loop, store.Check()).status();
  }
  loop.Stop();
  loop.Run();
  if (reached.ok() || absl::IsNotFound(reached)) return;
  out.push_back({"/state", config.state->url, std::string(conf::Std(reached.message())),
                 absl::IsFailedPrecondition(reached)});
}

void CheckRuns(const Config& config, std::vector<StartFinding>& out) {
  const bool may_change = config.server.user.empty() ? plugins::launchers::Broker::MaySplit() : true;
  const bool stays_root = config.server.user.empty() && geteuid() == 0;
  const auto users = control::RunUsers::Of(config, may_change, stays_root);
  if (!users.ok()) {
    out.push_back({"/scaling/runs", "", std::string(conf::Std(users.status().message())), true});
  } else if (!users->trouble().empty()) {
    out.push_back({"/scaling/runs", "", users->trouble(), false});
  }
  if (!config.scaling) return;
  if (std::string why = config::WhyUnclaimed(*config.scaling); !why.empty())
    out.push_back({"/scaling/device_locks", "", std::move(why), false});
}

}  // namespace

absl::Status CheckPortsFree(const Config& config) {
  std::vector<config::Address> addresses = config.server.listen;
  addresses.push_back(config.server.admin);
  if (config.server.console) addresses.push_back(*config.server.console);
  for (const config::Address& address : addresses) {
    if (address.port == 0 || net::PortOwner(address.port).empty()) continue;
    if (absl::Status free = CheckPortFree(address); !free.ok()) return free;
  }
  return absl::OkStatus();
}

std::vector<StartFinding> CheckStart(const Config& config) {
  std::vector<StartFinding> out;
  CheckStateDir(config.server, out);
  if (store::GatewayWith(FollowedPath(config)) == 0) CheckPorts(config, out);
  CheckState(config, out);
  CheckRuns(config, out);
  return out;
}

}  // namespace gateway
