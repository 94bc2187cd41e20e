// tidegate login, logout: sign this user in to a gateway from a terminal, and out again. The person confirms a
// short code in the console; or a link of `tidegate console login` signs in at once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/gateways.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/net/clock.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kLinkPath = "/sign-in/link";
constexpr std::chrono::milliseconds kLeastInterval{500};
constexpr std::chrono::milliseconds kTick{100};

struct SignInOptions {
  AdminOptions admin;
  std::string link;
  bool all = false;
  bool list = false;
};

// The name under which the person sees this command: the user and the machine.
std::string ClientName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string actor = Actor();
  return fmt::format("tidegate {} of {} at {}", TIDEGATE_VERSION, actor.substr(actor.find(':') + 1),
                     host.data());
}

bool IsLoopback(const std::string& url) {
  const absl::StatusOr<net::Url> read = net::ParseUrl(url);
  return read.ok() && (read->host == "localhost" || read->host == "::1" || read->host.starts_with("127."));
}

// The gateway of a link, and the link's code.
absl::StatusOr<std::pair<std::string, std::string>> ReadLink(const std::string& link) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "--link: give the whole link that tidegate console login prints, https://…/sign-in/link?code=…");
  absl::StatusOr<net::Url> url = net::ParseUrl(link);
  if (!url.ok() || !url->path.ends_with(kLinkPath) || !url->query.starts_with("code=")) return wrong;
  std::string code = url->query.substr(std::string_view("code=").size());
  if (code.empty()) return wrong;
  url->path.resize(url->path.size() - kLinkPath.size());
  return std::pair(AddressText(*url), std::move(code));
}

absl::StatusOr<ordered_json> ByLink(const AdminOptions& admin, const std::string& code) {
  return AskUnsigned(admin, "POST", "/admin/v1/sign-in:redeem", {{"code", code}});
}

// Asks until the person has decided or the code has ended.
absl::StatusOr<ordered_json> ByCode(const AdminOptions& admin) {
  const absl::StatusOr<ordered_json> begun =
      AskUnsigned(admin, "POST", "/admin/v1/terminal-sign-ins", json::object());
  if (!begun.ok()) return begun.status();
  const std::string code = begun->value("code", "");
  fmt::print(stderr, "Open this page, sign in, and confirm the code {}:\n\n  {}\n\n", conf::Visible(code),
             conf::Visible(begun->value("url", "")));
  fmt::print(stderr, "Waiting. The code expires in five minutes; ctrl-C stops waiting.\n");
  const auto interval =
      std::max(kLeastInterval, std::chrono::milliseconds(begun->value("interval_ms", int64_t{2000})));
  const Interruption interruption;
  while (!interruption.seen()) {
    for (auto waited = std::chrono::milliseconds(0); waited < interval && !interruption.seen();
         waited += kTick)
      std::this_thread::sleep_for(kTick);
    if (interruption.seen()) break;
    absl::StatusOr<ordered_json> answer = AskUnsigned(
        admin, "POST", fmt::format("/admin/v1/terminal-sign-ins/{}:redeem", net::PercentEncode(code)),
        {{"secret", begun->value("secret", "")}});
    // A gateway that restarts comes back.
    if (absl::IsUnavailable(answer.status())) continue;
    if (!answer.ok() || answer->value("state", "") != "waiting") return answer;
  }
  interruption.Obey();
}

int Login(SignInOptions options) {
  std::string code;
  if (!options.link.empty()) {
    if (!options.admin.url.empty()) {
      return Fail(absl::InvalidArgumentError("give either a URL or --link, which contains the address"));
    }
    absl::StatusOr<std::pair<std::string, std::string>> link = ReadLink(options.link);
    if (!link.ok()) return Fail(link.status());
    std::tie(options.admin.url, code) = *std::move(link);
  }
  if (options.admin.url.empty()) {
    return Fail(absl::InvalidArgumentError(
        "give the address of the console, such as https://tidegate.example.com:9090"));
  }
  if (options.admin.url.find("://") == std::string::npos) options.admin.url = "https://" + options.admin.url;
  // What is wrong with the file is told before somebody confirms in vain.
  const std::string path = GatewaysPath();
  absl::StatusOr<KnownGateways> gateways = LoadGateways(path);
  if (!gateways.ok()) return Fail(gateways.status());
  if (absl::Status found = Resolve(options.admin); !found.ok()) return Fail(found);
  if (options.admin.url.starts_with("http://") && !IsLoopback(options.admin.url)) {
    fmt::print(stderr, "tidegate: {} is not encrypted: others on the network can read the session\n",
               options.admin.url);
  }
  options.admin.user_agent = ClientName();
  const absl::StatusOr<ordered_json> session =
      code.empty() ? ByCode(options.admin) : ByLink(options.admin, code);
  if (!session.ok()) return Fail(session.status());
  KnownGateway gateway{.url = options.admin.url,
                       .token = conf::Secret("", TextOr(*session, "token")),
                       .actor = TextOr(*session, "actor"),
                       .ends = conf::ParseTime(TextOr(*session, "ends")).value_or(conf::TimePoint()),
                       .ca = options.admin.ca,
                       .server_name = options.admin.server_name};
  if (gateway.token.empty())
    return Fail(absl::UnavailableError("the gateway returned no session; does it run another version?"));
  // Another command may have signed in meanwhile.
  gateways = LoadGateways(path);
  if (!gateways.ok()) return Fail(gateways.status());
  gateways->Put(gateway);
  if (absl::Status saved = SaveGateways(path, *gateways); !saved.ok()) return Fail(saved);
  if (options.admin.json) {
    fmt::print(
        "{}\n",
        ordered_json{{"url", gateway.url}, {"actor", gateway.actor}, {"ends", conf::FormatTime(gateway.ends)}}
            .dump());
  } else {
    fmt::print("Signed in to {} as {} until {} at the latest\n", gateway.url,
               conf::Visible(TextOr(*session, "name")), conf::FormatTime(gateway.ends).substr(0, 19) + "Z");
  }
  return kOk;
}

int ListThem(const KnownGateways& gateways, bool as_json) {
  ordered_json out = ordered_json::array();
  Table table({{""}, {"GATEWAY"}, {"WHO"}, {"ENDS"}});
  for (const KnownGateway& gateway : gateways.all) {
    const bool current = gateway.url == gateways.current;
    out.push_back({{"url", gateway.url},
                   {"actor", gateway.actor},
                   {"ends", conf::FormatTime(gateway.ends)},
                   {"current", current}});
    table.Add(
        {current ? "*" : "", gateway.url, gateway.actor,
         gateway.ends <= net::Now() ? "has ended" : conf::FormatTime(gateway.ends).substr(0, 19) + "Z"});
  }
  fmt::print("{}", as_json ? out.dump() + "\n" : table.Render());
  return kOk;
}

// Ends the session there, too. A gateway that does not answer ends it by itself, in time.
int Logout(const SignInOptions& options) {
  const std::string path = GatewaysPath();
  absl::StatusOr<KnownGateways> gateways = LoadGateways(path);
  if (!gateways.ok()) return Fail(gateways.status());
  if (options.list) return ListThem(*gateways, options.admin.json);
  std::vector<std::string> urls;
  if (options.all) {
    for (const KnownGateway& gateway : gateways->all) urls.push_back(gateway.url);
  } else if (!options.admin.url.empty()) {
    const std::string& given = options.admin.url;
    const absl::StatusOr<net::Url> url =
        net::ParseUrl(given.find("://") == std::string::npos ? "https://" + given : given);
    urls.push_back(url.ok() ? AddressText(*url) : given);
  } else if (const KnownGateway* const current = gateways->Current()) {
    urls.push_back(current->url);
  }
  if (urls.empty()) return Fail(absl::FailedPreconditionError("you are not signed in"));
  for (const std::string& url : urls) {
    if (gateways->Find(url) == nullptr)
      return Fail(absl::FailedPreconditionError(fmt::format("you are not signed in to {}", url)));
    AdminOptions there = options.admin;
    there.url = url;
    there.only_session = true;
    const absl::StatusOr<ordered_json> ended =
        AskAdmin(there, "POST", "/admin/v1/session:end", json::object());
    if (!ended.ok() && !absl::IsUnauthenticated(ended.status())) {
      fmt::print(stderr,
                 "tidegate: {} cannot end the session now; it expires by itself, or can be ended in the "
                 "console: {}\n",
                 url, conf::Std(ended.status().message()));
    }
    gateways->Remove(url);
    if (!options.admin.json) fmt::print("Signed out of {}\n", url);
  }
  if (absl::Status saved = SaveGateways(path, *gateways); !saved.ok()) return Fail(saved);
  if (options.admin.json) fmt::print("{}\n", ordered_json{{"signed_out", urls}}.dump());
  return kOk;
}

}  // namespace

void AddLogin(CLI::App& app, Run& run) {
  auto options = std::make_shared<SignInOptions>();
  CLI::App* login =
      app.add_subcommand("login", "Sign in to a gateway; commands then work there from anywhere");
  login->add_option("url", options->admin.url,
                    "The address of the console, such as https://tidegate.example.com:9090");
  login->add_option("--link", options->link, "Sign in with the link that tidegate console login has printed");
  login
      ->add_option("--ca", options->admin.ca,
                   "A PEM file of certificates to trust; it is kept with the session; default: the system's")
      ->check(CLI::ExistingFile);
  login->add_option("--server-name", options->admin.server_name,
                    "The name to verify in the certificate; default: the host of the URL");
  login->add_flag("--json", options->admin.json, "Print JSON");
  login->footer(
      "The session is kept in $XDG_CONFIG_HOME/tidegate/gateways.json, which only you may read. It has "
      "your\n"
      "roles, and Sessions in the console lists it. A key in --key-file or TIDEGATE_ADMIN_KEY is used "
      "first.\n"
      "The last gateway is the current one; --gateway URL asks another.\n\n"
      "Examples:\n"
      "  tidegate login https://tidegate.example.com:9090\n"
      "  tidegate login https://10.0.0.7:9090 --ca /etc/ssl/tidegate-ca.pem\n"
      "  tidegate login --link 'http://127.0.0.1:9090/sign-in/link?code=...'");
  login->callback([options, &run] { run = [options] { return Login(*options); }; });
}

void AddLogout(CLI::App& app, Run& run) {
  auto options = std::make_shared<SignInOptions>();
  CLI::App* logout = app.add_subcommand("logout", "Sign out of a gateway");
  CLI::Option* const url =
      logout->add_option("url", options->admin.url, "The address of the gateway; default: the current one");
  CLI::Option* const all = logout->add_flag("--all", options->all, "Sign out of all gateways")->excludes(url);
  logout->add_flag("--list", options->list, "Only list the gateways; * marks the current one")
      ->excludes(url)
      ->excludes(all);
  logout->add_flag("--json", options->admin.json, "Print JSON");
  logout->footer("Examples:\n  tidegate logout\n  tidegate logout --list\n  tidegate logout --all");
  logout->callback([options, &run] { run = [options] { return Logout(*options); }; });
}

}  // namespace gateway::cli
