// The batch script of a run. Pure.
#pragma once

#include <string>
#include <vector>

namespace plugins::launchers::slurm {

// A script that becomes the command: no shell stays between Slurm and the run's first process.
std::string RenderScript(const std::vector<std::string>& command);

struct KeptResult {
  std::string file{};  // on the node
  std::string run{};   // the run's id, and
  std::string mark{};  // its mark as text, by which a later gateway knows the result
};
// A script that keeps the run's result: it reserves room in the file, runs the command, and writes durably
// when it ended and how, in the layout of wrapper/protocol.h. It ends as the command did.
std::string RenderScript(const std::vector<std::string>& command, const KeptResult& result);

}  // namespace plugins::launchers::slurm
