// The connection of a command to a running gateway, through its admin listener. It is found by its address, by the
// session of `tidegate login`, or by the configuration file, in this order; the caller's right is an admin key from
// the environment or a file, or else that session. Neither is printed.
#pragma once

#include <absl/status/statusor.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/config/config.h"

namespace gateway::cli {

inline constexpr const char* kAdminKeyVariable = "TIDEGATE_ADMIN_KEY";

struct AdminOptions {
  std::shared_ptr<std::string> config;
  const CLI::App* command = nullptr;  // tells whether --config was given
  std::string url;  // default: the gateway that one is signed in to, or server.admin of the configuration
  std::string key_file;     // instead of the environment
  std::string ca;           // of https
  std::string server_name;  // likewise
  bool json = false;
  bool only_session = false;  // no key, even where one is set
  std::string user_agent = {};
  conf::Duration patience = std::chrono::seconds(30);  // for one call
};

// -c, --gateway, --key-file, --ca, --server-name, --json.
void AddAdminOptions(CLI::App& command, AdminOptions& options);
// All of these but -c and --json, for a command that works on a state folder, too. It sets `config` itself.
void AddGatewayOptions(CLI::App& command, AdminOptions& options);

// Whether such a command asks a gateway: one was given, or somebody is signed in and no configuration was given.
bool AsksGateway(const AdminOptions& options);

// What to do where a command finds neither a gateway nor a configuration.
inline constexpr const char* kNoGatewayKnown =
    "correct the configuration, sign in with tidegate login, or give the address of the gateway with "
    "--gateway";

// The configuration, for such a command that asks no gateway. Nothing: its problems, and what to do, were printed.
std::optional<Config> LoadOwnConfig(const AdminOptions& options, bool json);

// The address of the admin listener for a program on the gateway's machine. InvalidArgument where the system chooses
// the port.
absl::StatusOr<std::string> LocalAdminUrl(const Config& config);

// Resolves the options once, so that later calls need not: `url` is then the address of the gateway.
absl::Status Resolve(AdminOptions& options);

// Returns the body of the answer. A gateway that has just started is asked again, for up to ten seconds. Errors carry the gateway's message: InvalidArgument for mistakes of the
// caller, FailedPrecondition for what cannot be done now, Unavailable if the gateway was not reached,
// Unauthenticated when the session has ended.
absl::StatusOr<nlohmann::ordered_json> AskAdmin(const AdminOptions& options, std::string_view method,
                                                const std::string& target,
                                                const nlohmann::json& body = nullptr);

// Likewise, without a key or session: for what signs in.
absl::StatusOr<nlohmann::ordered_json> AskUnsigned(const AdminOptions& options, std::string_view method,
                                                   const std::string& target,
                                                   const nlohmann::json& body = nullptr);

// An answer that is no JSON, as it is.
absl::StatusOr<std::string> AskText(const AdminOptions& options, const std::string& target);

// The answer of /readyz; its 503 has a body as well.
absl::StatusOr<nlohmann::ordered_json> AskReadiness(const AdminOptions& options);

// All pages of a list's data. `target` has a query already, or none. `beside` becomes what else the last page has.
absl::StatusOr<std::vector<nlohmann::ordered_json>> ListAdmin(const AdminOptions& options,
                                                              const std::string& target,
                                                              nlohmann::ordered_json* beside = nullptr);

// A member that is a text; empty where there is none.
std::string TextOr(const nlohmann::ordered_json& object, const char* name);

}  // namespace gateway::cli
