// Results: the results that the batch scripts of runs write beside their logs: `LOGS/ID.result`, with the layout of the
// process launcher's result file (run_result.h).
//
// slurmctld forgets a job some minutes after its end (MinJobAge) and counts in seconds; a result stays until
// the run is forgotten. It is read if the gateway sees the folder of the logs, too. Everyone who may write
// into that folder may write results: it belongs to the user as whom runs are submitted.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "plugins/launchers/run_result.h"
#include "plugins/launchers/slurm/submission.h"

namespace plugins::launchers::slurm {

// Empty where no logs are kept.
std::string ResultPath(const std::string& logs, const std::string& id);

struct Result {
  Mark mark{};
  RunResult times{};
};
// The results of ended runs of the gateway with this state, by id. Blocks; an unreadable folder has none.
std::map<std::string, Result> FindResults(const std::string& logs, const std::string& state);

}  // namespace plugins::launchers::slurm
