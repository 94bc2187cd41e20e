#include "gateway/cli/public_client.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/cli/fetch_once.h"
#include "gateway/cli/files.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kUrlVariable = "TIDEGATE_URL";
constexpr const char* kKeyVariable = "TIDEGATE_KEY";
constexpr size_t kMostAnswered = 512 << 20;  // bytes
constexpr auto kCallPatience = std::chrono::minutes(5);

absl::StatusOr<net::Url> UrlOf(const PublicOptions& options) {
  std::string given = options.url;
  if (const char* const variable = std::getenv(kUrlVariable); given.empty() && variable != nullptr)
    given = variable;
  if (given.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("give the address of the gateway's API with --url, or in {}", kUrlVariable));
  }
  absl::StatusOr<net::Url> url = net::ParseUrl(given);
  if (!url.ok())
    return absl::InvalidArgumentError(fmt::format("--url: {}", conf::Std(url.status().message())));
  while (url->path.ends_with('/')) url->path.pop_back();
  if (url->path.ends_with("/v1")) url->path.resize(url->path.size() - 3);
  return url;
}

absl::StatusOr<std::string> KeyOf(const PublicOptions& options) {
  absl::StatusOr<std::string> key = ReadApiKey(options.key_file, "--api-key-file", kKeyVariable);
  if (!key.ok() || !key->empty()) return key;
  return absl::InvalidArgumentError(fmt::format("no API key: set {}, or give --api-key-file", kKeyVariable));
}

absl::Status ErrorOf(const net::http::FetchResponse& answer) {
  const ordered_json read = conf::ParseOrderedJson(answer.body);
  std::string message = fmt::format("the gateway answered {}", answer.status);
  if (read.is_object() && read.contains("error") && read["error"].is_object())
    message = read["error"].value("message", message);
  if (answer.status >= 500 || answer.status == 429) return absl::UnavailableError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

void AddPublicOptions(CLI::App& command, PublicOptions& options) {
  command.add_option(
      "--url", options.url,
      fmt::format("URL of the gateway's API, such as https://tidegate.example.com:8080; default: the "
                  "environment variable {}",
                  kUrlVariable));
  command.add_option(
      "--api-key-file", options.key_file,
      fmt::format("A file with an API key; default: the environment variable {}", kKeyVariable));
  command.add_option("--ca", options.ca,
                     "With https: a PEM file of certificates to trust; default: the system's");
  command.add_option("--server-name", options.server_name,
                     "With https: the name to verify; default: the host of the URL");
}

absl::StatusOr<PublicClient> PublicClient::Open(const PublicOptions& options) {
  PublicClient client;
  absl::StatusOr<net::Url> url = UrlOf(options);
  if (!url.ok()) return url.status();
  client.url_ = *std::move(url);
  absl::StatusOr<std::string> key = KeyOf(options);
  if (!key.ok()) return key.status();
  client.key_ = conf::Secret("", *std::move(key));
  client.server_name_ = options.server_name;
  if (client.url_.tls) {
    auto tls = net::TlsContext::Client({.ca = options.ca, .certificate = "", .key = ""});
    if (!tls.ok()) return absl::InvalidArgumentError(tls.status().message());
    client.tls_ = *std::move(tls);
  }
  return client;
}

absl::StatusOr<std::string> PublicClient::Ask(std::string_view method, const std::string& path,
                                              std::string body, const std::string& type) const {
  net::http::FetchRequest request;
  request.method = method;
  request.url = url_;
  request.url.path += path;
  request.headers.emplace_back("authorization", fmt::format("Bearer {}", key_.Reveal()));
  if (!body.empty()) request.headers.emplace_back("content-type", type);
  request.body = std::move(body);
  request.timeout = kCallPatience;
  request.max_response_bytes = kMostAnswered;
  request.tls = tls_;
  request.server_name = server_name_;
  absl::StatusOr<net::http::FetchResponse> answer = FetchOnce(std::move(request));
  if (!answer.ok()) {
    return absl::UnavailableError(fmt::format("the gateway at {} does not answer: {}", url_.Authority(),
                                              conf::Std(answer.status().message())));
  }
  if (answer->status >= 300) return ErrorOf(*answer);
  return std::move(answer->body);
}

absl::StatusOr<ordered_json> PublicClient::AskJson(std::string_view method, const std::string& path,
                                                   std::string body, const std::string& type) const {
  const absl::StatusOr<std::string> text = Ask(method, path, std::move(body), type);
  if (!text.ok()) return text.status();
  ordered_json read = conf::ParseOrderedJson(*text);
  if (read.is_object()) return read;
  return absl::UnavailableError(
      fmt::format("the answer of {} does not come from a Tidegate; check the address", url_.Authority()));
}

}  // namespace gateway::cli
