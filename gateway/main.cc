// tidegate: an AI model gateway that schedules the GPUs behind it.
#include <CLI/CLI.hpp>

#include "gateway/cli/commands.h"

int main(int argc, char** argv) {
  namespace cli = gateway::cli;
  CLI::App app("Tidegate: an AI model gateway that schedules the GPUs behind it", "tidegate");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 could not be done, 2 the call or the configuration is wrong.");
  cli::Run run;
  cli::AddServe(app, run);
  cli::AddCheck(app, run);
  cli::AddKeys(app, run);
  cli::AddUsage(app, run);
  cli::AddAudit(app, run);
  cli::AddVersion(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kOk : cli::kUsage;
  }
  return run();
}
