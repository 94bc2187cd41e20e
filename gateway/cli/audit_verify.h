// The check behind `tidegate audit verify`: the chain, and what is kept of it elsewhere. Prints its report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gateway/config/config.h"

namespace gateway::cli {

struct VerifyCommand {
  std::string dir;                       // of the ledger
  const Config* config = nullptr;        // whose ledger it is; null: it is another one, such as a backup
  std::string public_key;                // file; empty: the one beside the ledger
  std::vector<std::string> checkpoints;  // files with checkpoints that were kept elsewhere
  std::string anchor;                    // NUMBER:CHAIN; empty: none
  bool json = false;
  std::function<void(uint64_t done, uint64_t total)> progress;
  std::function<void()> finished;  // before the report
};

// Checks a proof of one record that is in a file. Returns the exit code.
int VerifyProof(const std::string& path, const std::string& public_key, bool json);

// Returns the exit code.
int VerifyLedger(const VerifyCommand& command);

}  // namespace gateway::cli
