// Options that earlier versions had: what replaces each, for a configuration that was written for such a version.
#pragma once

#include <span>
#include <string_view>

namespace gateway::config {

struct RetiredOption {
  std::string_view option;  // "ledger.sinks[].format"
  std::string_view last;    // the last version that had it
  std::string_view instead;
};

std::span<const RetiredOption> RetiredOptions();

// The retired option at this pointer of a configuration, "/ledger/sinks/0/format"; null when it is none.
const RetiredOption* FindRetiredOption(std::string_view pointer);

}  // namespace gateway::config
