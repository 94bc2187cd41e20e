// Where things stand in server.state_dir: one place for the process and the commands that work beside it.
#pragma once

#include <string>

#include "gateway/config.h"

namespace gateway {

inline std::string KeyStorePath(const Config& config) {
  return config.server.state_dir + "/keys.jsonl";
}
inline std::string LedgerDir(const Config& config) {
  return config.server.state_dir + "/ledger";
}
// Sampled decisions are in routing.jsonl beside these: routing/files.h.
// The replicas that run and what each was given: control/fleet_file.h.
inline std::string FleetPath(const Config& config) {
  return config.server.state_dir + "/replicas.json";
}
// Jobs beside them: control/job_journal.h.
inline std::string JobsPath(const Config& config) {
  return config.server.state_dir + "/jobs.jsonl";
}
// The last key event that is in the ledger: key_events.h.
inline std::string KeyEventsPath(const Config& config) {
  return config.server.state_dir + "/key_events.json";
}

}  // namespace gateway
