// tidegate healthcheck: whether the gateway of a configuration answers, for supervisors, and for images that have
// neither a shell nor curl.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"

namespace gateway::cli {
namespace {

constexpr uint32_t kMostSeconds = 600;

struct HealthOptions {
  std::shared_ptr<std::string> config;
  AdminOptions admin;
  bool ready = false;
  uint32_t seconds = 3;
};

int CheckHealth(HealthOptions options) {
  AdminOptions& admin = options.admin;
  if (admin.url.empty()) {
    const std::optional<Config> config = LoadForState(*options.config, false);
    if (!config) return kUsage;
    const absl::StatusOr<std::string> url = LocalAdminUrl(*config);
    if (!url.ok()) return Fail(url.status());
    admin.url = *url;
  }
  admin.patience = std::chrono::seconds(options.seconds);
  const auto answer = AskUnsigned(admin, "GET", options.ready ? "/readyz" : "/livez");
  if (!answer.ok()) {
    fmt::print(stderr, "tidegate: {}\n", VisibleLines(conf::Std(answer.status().message())));
    return kFailed;
  }
  fmt::print("{}\n", TextOr(*answer, "status"));
  return kOk;
}

}  // namespace

void AddHealthcheck(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("healthcheck", "Check whether the gateway on this machine answers");
  auto options = std::make_shared<HealthOptions>();
  options->config = AddConfigOption(*command);
  command->add_option("--gateway", options->admin.url,
                      "URL of the admin listener; default: that of the configuration, on this machine");
  command->add_option("--ca", options->admin.ca, "With https: the authority that signed its certificate");
  command->add_option("--server-name", options->admin.server_name,
                      "With https: the name to verify; default: the host of the URL");
  command->add_flag("--ready", options->ready,
                    "Check whether it takes new work (/readyz), not only whether it runs");
  command->add_option("--timeout", options->seconds, "Seconds to wait for the answer")
      ->check(CLI::Range(uint32_t{1}, kMostSeconds))
      ->capture_default_str();
  command->footer(
      "It needs no key. Exit codes: 0 it answers, 1 it does not, 2 the configuration is wrong.\n\n"
      "Examples:\n  tidegate healthcheck --config /etc/tidegate/tidegate.yaml\n"
      "  tidegate healthcheck --gateway http://127.0.0.1:9090 --ready");
  command->callback([options, &run] { run = [options] { return CheckHealth(*options); }; });
}

}  // namespace gateway::cli
