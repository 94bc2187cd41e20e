#include "gateway/cli/admin_client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "conf/secret.h"
#include "conf/text.h"
#include "gateway/cli/files.h"
#include "gateway/cli/state.h"
#include "gateway/net/http/fetch.h"
#include "gateway/net/loop.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMostKey = 4096;
constexpr size_t kMostAnswer = 16 << 20;

absl::StatusOr<net::Url> AddressOf(const AdminOptions& options) {
  if (!options.url.empty()) {
    absl::StatusOr<net::Url> url = net::ParseUrl(options.url);
    if (!url.ok()) {
      return absl::InvalidArgumentError(
          conf::Abseil(fmt::format("--admin: {}", conf::Std(url.status().message()))));
    }
    return url;
  }
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config)
    return absl::InvalidArgumentError(
        "correct the configuration, or give the address of the gateway with --admin");
  net::Url url;
  url.tls = config->server.admin_tls.has_value();
  url.host = config->server.admin.host;
  // A gateway that listens on all addresses listens on the loopback address, too.
  if (url.host == "0.0.0.0") url.host = "127.0.0.1";
  if (url.host == "::") url.host = "::1";
  url.port = std::to_string(config->server.admin.port);
  if (config->server.admin.port == 0) {
    return absl::InvalidArgumentError("server.admin has port 0, which the system chooses: give --admin URL");
  }
  return url;
}

absl::StatusOr<conf::Secret> KeyOf(const AdminOptions& options) {
  std::string key;
  if (!options.key_file.empty()) {
    absl::StatusOr<std::string> text = ReadWhole(options.key_file, kMostKey);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          conf::Abseil(fmt::format("--key-file: {}", conf::Std(text.status().message()))));
    }
    key = *std::move(text);
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  } else if (const char* variable = std::getenv(kAdminKeyVariable)) {
    key = variable;
  }
  if (key.empty()) {
    return absl::InvalidArgumentError(conf::Abseil(fmt::format(
        "no admin key: set {} or give --key-file; `tidegate keys create --admin operator` makes one",
        kAdminKeyVariable)));
  }
  return conf::Secret("", std::move(key));
}

absl::Status ErrorOf(int status, const std::string& body) {
  const json read = json::parse(body, nullptr, false);
  std::string message = fmt::format("the gateway answered {}", status);
  if (read.is_object() && read.contains("error") && read["error"].is_object()) {
    const json& error = read["error"];
    if (error.contains("details") && error["details"].is_array()) {
      message.clear();
      for (const json& detail : error["details"])
        message += (message.empty() ? "" : "\ntidegate: ") + detail.value("message", "");
    } else {
      message = error.value("message", message);
    }
  }
  if (status >= 500 || status == 429) return absl::UnavailableError(message);
  if (status == 409) return absl::FailedPreconditionError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

void AddAdminOptions(CLI::App& command, AdminOptions& options) {
  options.config = AddConfigOption(command);
  command.add_option(
      "--admin", options.url,
      "URL of the admin listener, such as http://127.0.0.1:9090; default: server.admin of the configuration");
  command.add_option(
      "--key-file", options.key_file,
      fmt::format("A file with an admin key; default: the environment variable {}", kAdminKeyVariable));
  command.add_option("--ca", options.ca,
                     "With https: a PEM file of certificates to trust; default: the system's");
  command.add_option("--server-name", options.server_name,
                     "With https: the name to verify; default: the host of the URL");
  command.add_flag("--json", options.json, "Print JSON");
}

absl::Status Resolve(AdminOptions& options) {
  const absl::StatusOr<net::Url> url = AddressOf(options);
  if (!url.ok()) return url.status();
  options.url = fmt::format("{}://{}{}", url->tls ? "https" : "http", url->Authority(), url->path);
  return absl::OkStatus();
}

namespace {

struct Asked {
  net::http::FetchResponse response;
  std::string where;
};

absl::StatusOr<Asked> Send(const AdminOptions& options, std::string_view method, const std::string& target,
                           const json& body) {
  const absl::StatusOr<conf::Secret> key = KeyOf(options);
  if (!key.ok()) return key.status();
  absl::StatusOr<net::Url> url = AddressOf(options);
  if (!url.ok()) return url.status();
  net::http::FetchRequest request;
  request.method = method;
  request.url = *std::move(url);
  const size_t mark = target.find('?');
  request.url.path += target.substr(0, mark);
  if (mark != std::string::npos) request.url.query = target.substr(mark + 1);
  request.headers.emplace_back("authorization", fmt::format("Bearer {}", key->Reveal()));
  if (!body.is_null()) {
    request.headers.emplace_back("content-type", "application/json");
    request.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  request.timeout = options.patience;
  request.max_response_bytes = kMostAnswer;
  request.server_name = options.server_name;
  if (request.url.tls) {
    auto tls = net::TlsContext::Client({.ca = options.ca, .certificate = "", .key = ""});
    if (!tls.ok()) return absl::InvalidArgumentError(tls.status().message());
    request.tls = *std::move(tls);
  }
  const std::string where = request.url.Authority();

  absl::StatusOr<net::http::FetchResponse> answer = absl::InternalError("not asked");
  net::Loop loop([&answer](std::exception_ptr) { answer = absl::InternalError("the connection broke"); });
  loop.tasks.Spawn([](net::Loop& on, net::http::FetchRequest asked,
                      absl::StatusOr<net::http::FetchResponse>& out) -> net::Task<void> {
    out = co_await net::http::Fetch(on, std::move(asked));
  }(loop, std::move(request), answer));
  loop.Stop();
  loop.Run();
  if (!answer.ok()) {
    return absl::UnavailableError(conf::Abseil(
        fmt::format("the gateway at {} does not answer: {}", where, conf::Std(answer.status().message()))));
  }
  return Asked{*std::move(answer), where};
}

absl::StatusOr<ordered_json> BodyOf(const Asked& asked) {
  ordered_json read = ordered_json::parse(asked.response.body, nullptr, false);
  if (read.is_discarded()) {
    return absl::UnavailableError(conf::Abseil(fmt::format(
        "the answer from {} does not come from an admin listener; check the address", asked.where)));
  }
  return read;
}

}  // namespace

absl::StatusOr<ordered_json> AskAdmin(const AdminOptions& options, std::string_view method,
                                      const std::string& target, const json& body) {
  const absl::StatusOr<Asked> asked = Send(options, method, target, body);
  if (!asked.ok()) return asked.status();
  if (asked->response.status >= 300) return ErrorOf(asked->response.status, asked->response.body);
  return BodyOf(*asked);
}

absl::StatusOr<ordered_json> AskReadiness(const AdminOptions& options) {
  const absl::StatusOr<Asked> asked = Send(options, "GET", "/readyz", nullptr);
  if (!asked.ok()) return asked.status();
  const int status = asked->response.status;
  return status == 200 || status == 503 ? BodyOf(*asked) : ErrorOf(status, asked->response.body);
}

absl::StatusOr<std::vector<ordered_json>> ListAdmin(const AdminOptions& options, const std::string& target) {
  std::vector<ordered_json> all;
  const std::string first =
      fmt::format("{}{}limit=1000", target, target.find('?') == std::string::npos ? '?' : '&');
  std::string page = first;
  while (true) {
    absl::StatusOr<ordered_json> answer = AskAdmin(options, "GET", page);
    if (!answer.ok()) return answer.status();
    for (ordered_json& row : (*answer)["data"]) all.push_back(std::move(row));
    if (!answer->value("has_more", false)) return all;
    page = fmt::format("{}&after={}", first, net::PercentEncode(answer->value("next", "")));
  }
}

}  // namespace gateway::cli
