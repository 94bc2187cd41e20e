// The command line: all commands, and which one was called.
#include "gateway/cli/commands.h"

namespace gateway::cli {

int RunCommandLine(int argc, const char* const* argv) {
  CLI::App app("Tidegate: an AI model gateway that schedules the GPUs behind it", "tidegate");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 could not be done, 2 the call or the configuration is wrong.");
  Run run;
  AddServe(app, run);
  AddCheck(app, run);
  AddKeys(app, run);
  AddUsage(app, run);
  AddAudit(app, run);
  AddJobs(app, run);
  AddNodes(app, run);
  AddDevices(app, run);
  AddQueues(app, run);
  AddTop(app, run);
  AddRoute(app, run);
  AddPolicy(app, run);
  AddSimulate(app, run);
  AddVersion(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return run();
}

}  // namespace gateway::cli
