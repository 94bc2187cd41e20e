// The connection of a command to the API that a gateway offers to applications, with an API key from the environment or
// a file. The key is not printed.
#pragma once

#include <absl/status/statusor.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "conf/secret.h"
#include "gateway/net/tls.h"
#include "gateway/net/url.h"

namespace gateway::cli {

struct PublicOptions {
  std::string url;
  std::string key_file;
  std::string ca;           // of https
  std::string server_name;  // likewise
};

// --url, --api-key-file, --ca, --server-name.
void AddPublicOptions(CLI::App& command, PublicOptions& options);

class PublicClient {
 public:
  static absl::StatusOr<PublicClient> Open(const PublicOptions& options);

  // The body of the answer. Errors carry the gateway's message: InvalidArgument for mistakes of the caller, Unavailable
  // where the gateway was not reached or cannot answer now.
  absl::StatusOr<std::string> Ask(std::string_view method, const std::string& path, std::string body = {},
                                  const std::string& type = "application/json") const;
  absl::StatusOr<nlohmann::ordered_json> AskJson(std::string_view method, const std::string& path,
                                                 std::string body = {},
                                                 const std::string& type = "application/json") const;

 private:
  net::Url url_;
  conf::Secret key_;
  std::string server_name_;
  std::shared_ptr<const net::TlsContext> tls_;
};

}  // namespace gateway::cli
