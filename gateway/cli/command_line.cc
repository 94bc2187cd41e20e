// The command line: declares all commands and runs the one that was called.
#include "gateway/cli/commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <sstream>
#include <system_error>

#include "gateway/cli/arguments.h"
#include "gateway/cli/help_formatter.h"
#include "gateway/cli/output.h"

namespace gateway::cli {

int RunCommandLine(int argc, const char* const* argv) {
  CLI::App app("Tidegate: an AI model gateway that schedules the GPUs behind it", "tidegate");
  app.formatter(std::make_shared<HelpFormatter>());  // the commands that are added take it over
  app.require_subcommand(1);
  app.set_version_flag("--version", "tidegate " TIDEGATE_VERSION, "Print the version and exit");
  app.footer("Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.");
  Run run;
  AddServe(app, run);
  AddCheck(app, run);
  AddUpgradeCheck(app, run);
  AddHealthcheck(app, run);
  AddLogin(app, run);
  AddLogout(app, run);
  AddKeys(app, run);
  AddConsole(app, run);
  AddTenants(app, run);
  AddGrants(app, run);
  AddRequests(app, run);
  AddUsage(app, run);
  AddStatement(app, run);
  AddAudit(app, run);
  AddDataset(app, run);
  AddJobs(app, run);
  AddModels(app, run);
  AddAdapters(app, run);
  AddRollouts(app, run);
  AddNodes(app, run);
  AddDevices(app, run);
  AddGateways(app, run);
  AddQueues(app, run);
  AddTop(app, run);
  AddState(app, run);
  AddRoute(app, run);
  AddPolicy(app, run);
  AddSimulate(app, run);
  AddWeights(app, run);
  AddCompletion(app, run);
  AddVersion(app, run);
  AddReference(app, run);
  CheckCounts(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int kind = error.get_exit_code();
    const bool unknown = kind == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                         kind == static_cast<int>(CLI::ExitCodes::RequiredError);
    if (const std::string what = unknown ? DescribeUnknown(app) : std::string(); !what.empty()) {
      fmt::print(stderr, "{}",
                 VisibleLines(fmt::format("{}\nRun with --help for more information.\n", what)));
      return CheckOutput(kUsage);
    }
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err) == 0 ? kOk : kUsage;
    std::fputs(out.str().c_str(), stdout);
    std::fputs(VisibleLines(err.str()).c_str(), stderr);
    return CheckOutput(code);
  }
  try {
    return CheckOutput(run());
  } catch (const std::system_error& error) {  // of printing
    return OutputFailed(error.code().value());
  }
}

}  // namespace gateway::cli
