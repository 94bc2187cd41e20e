// tidegate gateways: lists the gateways that share a store: their versions, which of them leads, and how far each
// has followed the store.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

int ListTheGateways(const AdminOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> gateways = ListAdmin(options, "/admin/v1/gateways");
  if (const auto code = FailOrPrintJson(gateways, options.json)) return *code;
  Table table({{"GATEWAY"},
               {"ROLE"},
               {"VERSION"},
               {"EPOCH", true},
               {"SINCE"},
               {"SEEN", true},
               {"LAG", true},
               {"ADMIN"}});
  for (const ordered_json& gateway : *gateways) {
    const auto epoch = gateway["epoch"].get<uint64_t>();
    table.Add({TextOf(gateway["name"]) + (gateway["self"].get<bool>() ? " *" : ""), TextOf(gateway["role"]),
               TextOf(gateway["version"]), epoch == 0 ? "-" : fmt::format("{}", epoch),
               TextOf(gateway["since"]).substr(0, 19) + "Z",
               fmt::format("{:.1f}s", static_cast<double>(gateway["seen_ms"].get<int64_t>()) / 1000),
               TextOf(gateway["lag"]), TextOf(gateway["address"])});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

}  // namespace

void AddGateways(CLI::App& app, Run& run) {
  auto options = std::make_shared<AdminOptions>();
  CLI::App* command =
      app.add_subcommand("gateways", "List the gateways that share a store, and which of them leads");
  AddAdminOptions(*command, *options);
  command->footer("Examples:\n  tidegate gateways\n  tidegate gateways --json");
  command->callback([options, &run] { run = [options] { return ListTheGateways(*options); }; });
}

}  // namespace gateway::cli
