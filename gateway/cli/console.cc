// tidegate console login: a link that signs one in to the console, for whoever can read the state folder on
// the gateway's machine. Where a provider is configured, people sign in there.
#include <fmt/format.h>

#include <memory>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/loop.h"
#include "gateway/people/sessions.h"
#include "gateway/process/open_state.h"
#include "gateway/store/followed.h"
#include "gateway/store/kinds.h"

namespace gateway::cli {
namespace {

using plugins::auth::Role;

constexpr conf::Duration kLinkLife = std::chrono::minutes(1);

struct LoginOptions {
  std::shared_ptr<std::string> config;
  std::string role = "admin";
  std::string tenant;
  bool json = false;
};

// Where a browser on this machine finds the console.
std::string ConsoleAddress(const Config& config) {
  if (!config.people.url.empty()) return ToString(config.people.url);
  const config::Server& server = config.server;
  config::Address address = server.console.value_or(server.admin);
  const bool tls = server.console ? server.console_tls.has_value() : server.admin_tls.has_value();
  if (address.host == "0.0.0.0") address.host = "127.0.0.1";
  if (address.host == "::") address.host = "::1";
  return fmt::format("{}://{}", tls ? "https" : "http", ToString(address));
}

// The role over what it is asked for; InvalidArgument says what would be right.
absl::StatusOr<RoleOver> RoleAskedFor(const LoginOptions& options, const Config& config) {
  const std::optional<Role> role = plugins::auth::RoleFromName(options.role);
  if (!role) {
    return absl::InvalidArgumentError(fmt::format(
        "--role: unknown role \"{}\"; give member, lead, viewer, operator or admin", options.role));
  }
  if (IsOfTenant(*role) == options.tenant.empty()) {
    return absl::InvalidArgumentError(
        options.tenant.empty()
            ? fmt::format("--tenant: missing; the role {} is over a tenant", options.role)
            : fmt::format("--tenant: has no effect; the role {} is over the whole gateway", options.role));
  }
  return RoleOver{*role, TenantPath(config, options.tenant).value_or(options.tenant)};
}

// One that the configuration does not name may be made at run time.
absl::Status CheckTenant(net::Loop& loop, store::Store& store, const Config& config,
                         const std::string& tenant) {
  if (tenant.empty() || TenantPath(config, tenant)) return absl::OkStatus();
  const auto made = net::Await(loop, store.Get(store::kTenant, tenant));
  if (!made.ok()) return made.status();
  if (made->has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--tenant: unknown tenant \"{}\"", tenant));
}

absl::StatusOr<std::string> StoreCode(const Config& config, Person person, conf::TimePoint ends) {
  net::Loop loop([](const std::exception_ptr& error) { log::Exception("console login", error); });
  auto store = OpenState(loop, config);
  if (!store.ok()) return store.status();
  Sessions sessions(loop, **store, [] { return SessionTerms(); });
  absl::StatusOr<std::string> code;
  if (absl::Status known = CheckTenant(loop, **store, config, person.roles.front().tenant); !known.ok()) {
    code = std::move(known);
  } else {
    code = net::Await(loop, sessions.MakeCode({.person = std::move(person), .ends = ends}));
  }
  sessions.Stop();
  loop.Stop();
  loop.Run();
  return code;
}

int Login(const LoginOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  const absl::StatusOr<RoleOver> role = RoleAskedFor(options, *config);
  if (!role.ok()) return Fail(role.status());
  if (store::GatewayWith(FollowedPath(*config)) == 0) {
    return Fail(absl::FailedPreconditionError(
        fmt::format("no gateway runs on {}; start it with tidegate serve, then ask for a link",
                    config->server.state_dir)));
  }
  const std::string actor = Actor();
  const conf::TimePoint ends = net::Now() + kLinkLife;
  const absl::StatusOr<std::string> code = StoreCode(*config,
                                                     {.id = "person:" + actor,
                                                      .name = actor.substr(actor.find(':') + 1),
                                                      .provider = "link",
                                                      .roles = {*role}},
                                                     ends);
  if (!code.ok()) return Fail(code.status());
  const std::string url = fmt::format("{}/sign-in/link?code={}", ConsoleAddress(*config), *code);
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"url", url}, {"ends", conf::FormatTime(ends)}}.dump());
  } else {
    fmt::print("{}\n", url);
    fmt::print(stderr, "Open it in a browser within a minute; it works once.\n");
  }
  return kOk;
}

}  // namespace

void AddConsole(CLI::App& app, Run& run) {
  CLI::App* console = app.add_subcommand("console", "Open the console");
  console->require_subcommand(1);
  auto options = std::make_shared<LoginOptions>();
  CLI::App* login =
      console->add_subcommand("login", "Print a link that signs you in; it works once, within a minute");
  options->config = AddConfigOption(*login);
  login
      ->add_option("--role", options->role,
                   "The role of the session: member, lead, viewer, operator or admin")
      ->capture_default_str();
  login->add_option("--tenant", options->tenant, "The tenant over which a member or a lead has the role");
  login->add_flag("--json", options->json, "Print JSON");
  login->footer(
      "Examples:\n"
      "  tidegate console login\n"
      "  tidegate console login --role lead --tenant search");
  login->callback([options, &run] { run = [options] { return Login(*options); }; });
}

}  // namespace gateway::cli
