#include "gateway/cli/admin_client.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/secret.h"
#include "conf/text.h"
#include "gateway/api/error.h"
#include "gateway/cli/fetch_once.h"
#include "gateway/cli/files.h"
#include "gateway/cli/gateways.h"
#include "gateway/cli/state.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMostAnswer = 16 << 20;
constexpr std::chrono::seconds kLongestStart{10};

bool ConfigGiven(const AdminOptions& options) {
  return options.command != nullptr && options.command->count("--config") > 0;
}

bool KeyGiven(const AdminOptions& options) {
  const char* const variable = std::getenv(kAdminKeyVariable);
  return !options.key_file.empty() || (variable != nullptr && variable[0] != '\0');
}

absl::StatusOr<net::Url> LocalAddress(const Config& config) {
  net::Url url;
  url.tls = config.server.admin_tls.has_value();
  url.host = config.server.admin.host;
  // A gateway that listens on all addresses listens on the loopback address, too.
  if (url.host == "0.0.0.0") url.host = "127.0.0.1";
  if (url.host == "::") url.host = "::1";
  url.port = std::to_string(config.server.admin.port);
  if (config.server.admin.port == 0) {
    return absl::InvalidArgumentError(
        "server.admin has port 0, which the system chooses: give --gateway URL");
  }
  return url;
}

absl::StatusOr<net::Url> AddressOf(const AdminOptions& options) {
  std::string given = options.url;
  if (given.empty() && !ConfigGiven(options) && (options.only_session || !KeyGiven(options))) {
    const absl::StatusOr<KnownGateways> gateways = LoadGateways(GatewaysPath());
    if (!gateways.ok()) return gateways.status();
    if (const KnownGateway* const current = gateways->Current()) given = current->url;
  }
  if (!given.empty()) {
    absl::StatusOr<net::Url> url = net::ParseUrl(given);
    if (!url.ok()) {
      return absl::InvalidArgumentError(
          conf::Abseil(fmt::format("--gateway: {}", conf::Std(url.status().message()))));
    }
    return url;
  }
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return absl::InvalidArgumentError(kNoGatewayKnown);
  return LocalAddress(*config);
}

// What a call carries, and how the gateway is verified.
struct Credentials {
  conf::Secret bearer;
  bool session = false;
  std::string ca;
  std::string server_name;
};

absl::StatusOr<Credentials> CredentialsFor(const AdminOptions& options, const net::Url& url) {
  Credentials out{.bearer = {}, .ca = options.ca, .server_name = options.server_name};
  absl::StatusOr<std::string> key =
      ReadApiKey(options.key_file, "--key-file", options.only_session ? nullptr : kAdminKeyVariable);
  if (!key.ok()) return key.status();
  const absl::StatusOr<KnownGateways> gateways = LoadGateways(GatewaysPath());
  // Somebody with a key needs no such file.
  if (!gateways.ok() && key->empty()) return gateways.status();
  const KnownGateway* const known = gateways.ok() ? gateways->Find(AddressText(url)) : nullptr;
  if (known != nullptr) {
    if (out.ca.empty()) out.ca = known->ca;
    if (out.server_name.empty()) out.server_name = known->server_name;
  }
  if (!key->empty()) {
    out.bearer = conf::Secret("", *std::move(key));
    return out;
  }
  if (known == nullptr) {
    return absl::InvalidArgumentError(conf::Abseil(fmt::format(
        "no admin key: set {} or give --key-file, or sign in with tidegate login {}; `tidegate keys create "
        "--admin operator` makes a key",
        kAdminKeyVariable, AddressText(url))));
  }
  out.bearer = known->token;
  out.session = true;
  return out;
}

absl::Status ErrorOf(int status, const std::string& body) {
  const json read = conf::ParseJson(body);
  std::string message = fmt::format("the gateway answered {}", status);
  if (read.is_object() && read.contains("error") && read["error"].is_object()) {
    const json& error = read["error"];
    const std::string whole = error.value("message", message);
    if (error.contains("details") && error["details"].is_array()) {
      message.clear();
      for (const json& detail : error["details"]) {
        const std::string text = detail.value("message", "");
        // The whole message names the member where the text of its problem does not.
        const std::string named = fmt::format("{}: {}", detail.value("param", ""), text);
        message +=
            (message.empty() ? "" : "\ntidegate: ") + (whole.find(named) == std::string::npos ? text : named);
      }
    } else {
      message = whole;
    }
  }
  // The listener for applications knows no path of the admin API.
  if (status == 404 && message.starts_with("the endpoint "))
    message += "; this is the address for applications: give that of the console, which is server.admin";
  if (status >= 500 || status == 429) return absl::UnavailableError(message);
  if (status == 409) return absl::FailedPreconditionError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

namespace {

void AddConnectionOptions(CLI::App& command, AdminOptions& options, const char* names) {
  options.command = &command;
  command.add_option(
      names, options.url,
      "URL of the gateway's console, such as https://tidegate.example.com:9090; default: the one "
      "that you are signed in to, or server.admin of the configuration");
  command.add_option(
      "--key-file", options.key_file,
      fmt::format("A file with an admin key; default: the environment variable {}", kAdminKeyVariable));
  command.add_option("--ca", options.ca,
                     "With https: a PEM file of certificates to trust; default: the system's");
  command.add_option("--server-name", options.server_name,
                     "With https: the name to verify; default: the host of the URL");
}

}  // namespace

void AddAdminOptions(CLI::App& command, AdminOptions& options) {
  options.config = AddConfigOption(command);
  AddConnectionOptions(command, options, "--gateway,--admin");
  command.add_flag("--json", options.json, "Print JSON");
}

void AddGatewayOptions(CLI::App& command, AdminOptions& options) {
  AddConnectionOptions(command, options, "--gateway");
}

bool AsksGateway(const AdminOptions& options) {
  if (!options.url.empty()) return true;
  if (ConfigGiven(options)) return false;
  const absl::StatusOr<KnownGateways> gateways = LoadGateways(GatewaysPath());
  return gateways.ok() && gateways->Current() != nullptr;
}

std::optional<Config> LoadOwnConfig(const AdminOptions& options, bool json) {
  std::optional<Config> config = LoadForState(*options.config, json);
  if (!config && !json) fmt::print(stderr, "tidegate: {}\n", kNoGatewayKnown);
  return config;
}

absl::StatusOr<std::string> LocalAdminUrl(const Config& config) {
  const absl::StatusOr<net::Url> url = LocalAddress(config);
  if (!url.ok()) return url.status();
  return AddressText(*url);
}

absl::Status Resolve(AdminOptions& options) {
  const absl::StatusOr<net::Url> url = AddressOf(options);
  if (!url.ok()) return url.status();
  options.url = AddressText(*url);
  return absl::OkStatus();
}

namespace {

struct Asked {
  net::http::FetchResponse response;
  std::string where;
};

absl::StatusOr<Asked> Send(const AdminOptions& options, std::string_view method, const std::string& target,
                           const json& body, bool with_credentials = true) {
  absl::StatusOr<net::Url> url = AddressOf(options);
  if (!url.ok()) return url.status();
  while (url->path.ends_with('/')) url->path.pop_back();
  Credentials credentials{.bearer = {}, .ca = options.ca, .server_name = options.server_name};
  if (with_credentials) {
    absl::StatusOr<Credentials> found = CredentialsFor(options, *url);
    if (!found.ok()) return found.status();
    credentials = *std::move(found);
  }
  const net::Url base = *url;
  net::http::FetchRequest request;
  request.method = method;
  request.url = *std::move(url);
  const size_t mark = target.find('?');
  request.url.path += target.substr(0, mark);
  if (mark != std::string::npos) request.url.query = target.substr(mark + 1);
  if (with_credentials)
    request.headers.emplace_back("authorization", fmt::format("Bearer {}", credentials.bearer.Reveal()));
  if (!options.user_agent.empty()) request.headers.emplace_back("user-agent", options.user_agent);
  if (!body.is_null()) {
    request.headers.emplace_back("content-type", "application/json");
    request.body = conf::DumpJson(body);
  }
  request.timeout = options.patience;
  request.max_response_bytes = kMostAnswer;
  request.server_name = credentials.server_name;
  if (request.url.tls) {
    auto tls = net::TlsContext::Client({.ca = credentials.ca, .certificate = "", .key = ""});
    if (!tls.ok()) return absl::InvalidArgumentError(tls.status().message());
    request.tls = *std::move(tls);
  }
  const std::string where = request.url.Authority();

  absl::StatusOr<net::http::FetchResponse> answer = FetchOnce(std::move(request));
  if (!answer.ok()) {
    return absl::UnavailableError(conf::Abseil(
        fmt::format("the gateway at {} does not answer: {}", where, conf::Std(answer.status().message()))));
  }
  if (answer->status == 401 && credentials.session) {
    return absl::UnauthenticatedError(
        conf::Abseil(fmt::format("signed out: tidegate login {}", AddressText(base))));
  }
  return Asked{*std::move(answer), where};
}

// Whether the gateway refused only because it does not know yet, after its start, what runs.
bool JustStarted(const Asked& asked) {
  if (asked.response.status != 503) return false;
  const json body = conf::ParseJson(asked.response.body);
  const std::string code(api::Info(api::Code::kStarting).name);
  return body.is_object() && body.contains("error") && body["error"].is_object() &&
         body["error"].value("code", "") == code;
}

absl::StatusOr<ordered_json> BodyOf(const Asked& asked) {
  ordered_json read = conf::ParseOrderedJson(asked.response.body);
  if (read.is_discarded()) {
    return absl::UnavailableError(conf::Abseil(fmt::format(
        "the answer from {} does not come from an admin listener; check the address", asked.where)));
  }
  return read;
}

}  // namespace

absl::StatusOr<ordered_json> AskAdmin(const AdminOptions& options, std::string_view method,
                                      const std::string& target, const json& body) {
  const auto begun = std::chrono::steady_clock::now();
  absl::StatusOr<Asked> asked = Send(options, method, target, body);
  // It changed nothing, so that it may be asked again.
  while (asked.ok() && JustStarted(*asked) && std::chrono::steady_clock::now() - begun < kLongestStart) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    asked = Send(options, method, target, body);
  }
  if (!asked.ok()) return asked.status();
  if (asked->response.status >= 300) return ErrorOf(asked->response.status, asked->response.body);
  return BodyOf(*asked);
}

absl::StatusOr<ordered_json> AskUnsigned(const AdminOptions& options, std::string_view method,
                                         const std::string& target, const json& body) {
  const absl::StatusOr<Asked> asked = Send(options, method, target, body, false);
  if (!asked.ok()) return asked.status();
  if (asked->response.status >= 300) return ErrorOf(asked->response.status, asked->response.body);
  return BodyOf(*asked);
}

absl::StatusOr<std::string> AskText(const AdminOptions& options, const std::string& target) {
  const absl::StatusOr<Asked> asked = Send(options, "GET", target, nullptr);
  if (!asked.ok()) return asked.status();
  if (asked->response.status >= 300) return ErrorOf(asked->response.status, asked->response.body);
  return asked->response.body;
}

absl::StatusOr<ordered_json> AskReadiness(const AdminOptions& options) {
  const absl::StatusOr<Asked> asked = Send(options, "GET", "/readyz", nullptr);
  if (!asked.ok()) return asked.status();
  const int status = asked->response.status;
  return status == 200 || status == 503 ? BodyOf(*asked) : ErrorOf(status, asked->response.body);
}

absl::StatusOr<std::vector<ordered_json>> ListAdmin(const AdminOptions& options, const std::string& target,
                                                    ordered_json* beside) {
  std::vector<ordered_json> all;
  const std::string first =
      fmt::format("{}{}limit=1000", target, target.find('?') == std::string::npos ? '?' : '&');
  std::string page = first;
  while (true) {
    absl::StatusOr<ordered_json> answer = AskAdmin(options, "GET", page);
    if (!answer.ok()) return answer.status();
    for (ordered_json& row : (*answer)["data"]) all.push_back(std::move(row));
    if (!answer->value("has_more", false)) {
      if (beside != nullptr) *beside = *std::move(answer);
      return all;
    }
    page = fmt::format("{}&after={}", first, net::PercentEncode(answer->value("next", "")));
  }
}

std::string TextOr(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace gateway::cli
