// The commands of the one binary. Each command has a file of its own that declares its options on a CLI11 app
// and sets the function to run. Exit codes: 0 done, 1 failed, 2 the command line or the configuration is
// wrong.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace gateway::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

// Runs the command that the arguments name; returns the exit code.
int RunCommandLine(int argc, const char* const* argv);

using Run = std::function<int()>;

// Adds the command to `app`; `run` is set when it is the one that was called.
void AddServe(CLI::App& app, Run& run);
void AddCheck(CLI::App& app, Run& run);
void AddConsole(CLI::App& app, Run& run);
void AddLogin(CLI::App& app, Run& run);
void AddLogout(CLI::App& app, Run& run);
void AddKeys(CLI::App& app, Run& run);
void AddTenants(CLI::App& app, Run& run);
void AddGrants(CLI::App& app, Run& run);
void AddRequests(CLI::App& app, Run& run);
void AddUsage(CLI::App& app, Run& run);
void AddStatement(CLI::App& app, Run& run);
void AddAudit(CLI::App& app, Run& run);
void AddDataset(CLI::App& app, Run& run);
void AddDatasetEvaluate(CLI::App& dataset, Run& run);  // of the command `dataset`
void AddJobs(CLI::App& app, Run& run);
void AddAdapters(CLI::App& app, Run& run);
void AddRollouts(CLI::App& app, Run& run);
void AddModels(CLI::App& app, Run& run);
void AddNodes(CLI::App& app, Run& run);
void AddDevices(CLI::App& app, Run& run);
void AddGateways(CLI::App& app, Run& run);
void AddQueues(CLI::App& app, Run& run);
void AddState(CLI::App& app, Run& run);
void AddStateCopies(CLI::App& state, Run& run);  // of the command `state`
void AddRoute(CLI::App& app, Run& run);
void AddPolicy(CLI::App& app, Run& run);
void AddTop(CLI::App& app, Run& run);
void AddSimulate(CLI::App& app, Run& run);
void AddWeights(CLI::App& app, Run& run);
void AddCompletion(CLI::App& app, Run& run);
void AddHealthcheck(CLI::App& app, Run& run);
void AddUpgradeCheck(CLI::App& app, Run& run);
void AddVersion(CLI::App& app, Run& run);
void AddReference(CLI::App& app, Run& run);

}  // namespace gateway::cli
