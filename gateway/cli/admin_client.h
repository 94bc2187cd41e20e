// The connection of a command to a running gateway: through its admin listener, found by the configuration
// file or by its address, with an admin key from the environment or a file that is never printed.
#pragma once

#include <absl/status/statusor.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"

namespace gateway::cli {

inline constexpr const char* kAdminKeyVariable = "TIDEGATE_ADMIN_KEY";

struct AdminOptions {
  std::shared_ptr<std::string> config;
  std::string url;          // default: server.admin of the configuration
  std::string key_file;     // instead of the environment
  std::string ca;           // of https
  std::string server_name;  // likewise
  bool json = false;
  conf::Duration patience = std::chrono::seconds(30);  // for one call
};

// -c, --admin, --key-file, --ca, --server-name, --json.
void AddAdminOptions(CLI::App& command, AdminOptions& options);

// Resolves the options once, so that later calls need not: `url` is then the address of the gateway.
absl::Status Resolve(AdminOptions& options);

// Returns the body of the answer. Errors carry the gateway's message: InvalidArgument for mistakes of the
// caller, FailedPrecondition for what cannot be done now, Unavailable if the gateway was not reached.
absl::StatusOr<nlohmann::ordered_json> AskAdmin(const AdminOptions& options, std::string_view method,
                                                const std::string& target,
                                                const nlohmann::json& body = nullptr);

// The answer of /readyz; its 503 has a body as well.
absl::StatusOr<nlohmann::ordered_json> AskReadiness(const AdminOptions& options);

// All pages of a list's data. `target` has a query already, or none.
absl::StatusOr<std::vector<nlohmann::ordered_json>> ListAdmin(const AdminOptions& options,
                                                              const std::string& target);

}  // namespace gateway::cli
