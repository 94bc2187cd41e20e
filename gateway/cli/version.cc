// tidegate version: the version and the compiler of this binary.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/commands.h"

namespace gateway::cli {

void AddVersion(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Example:\n  tidegate version --json");
  command->callback([json, &run] {
    run = [json] {
      if (*json) {
        const nlohmann::ordered_json out = {{"version", TIDEGATE_VERSION}, {"compiler", __VERSION__}};
        fmt::print("{}\n", out.dump());
      } else {
        fmt::print("tidegate {}\n", TIDEGATE_VERSION);
      }
      return kOk;
    };
  });
}

}  // namespace gateway::cli
