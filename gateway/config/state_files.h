// The paths in server.state_dir: one place for the process and the commands that work beside it.
#pragma once

#include <string>

#include "gateway/config/config.h"

namespace gateway {

// Keys, positions and what else must survive: store/store.h.
inline std::string StorePath(const std::string& state_dir) {
  return state_dir + "/state.db";
}
// By what a shared store knows this gateway: process/open_state.h.
inline std::string GatewayIdPath(const std::string& state_dir) {
  return state_dir + "/gateway.id";
}
// How far the running gateway has followed the store beside it: store/followed.h.
inline std::string FollowedPath(const Config& config) {
  return config.server.state_dir + "/followed";
}
// The usage that other gateways of a shared store have reported: audit/usage_copy.h.
inline std::string UsageCopyPath(const std::string& state_dir) {
  return state_dir + "/usage_copy.db";
}
inline std::string LedgerDir(const std::string& state_dir) {
  return state_dir + "/ledger";
}
inline std::string LedgerDir(const Config& config) {
  return LedgerDir(config.server.state_dir);
}
// Keys of stored prompts and answers, and the key that wraps them where none is configured:
// ledger/content_keys.h. Not beside the ledger, so that a copy of the ledger has no key.
inline std::string ContentKeysPath(const std::string& state_dir) {
  return state_dir + "/content_keys.json";
}
inline std::string ContentMasterPath(const std::string& state_dir) {
  return state_dir + "/content.key";
}
// A copy of the secret of the keys of replicas, for a lost store: control/replica_keys.h.
inline std::string ReplicaSecretPath(const std::string& state_dir) {
  return state_dir + "/replica.secret";
}
// The usual power limits of devices whose limits are lowered: control/power_caps.h.
inline std::string PowerCapsPath(const std::string& state_dir) {
  return state_dir + "/power_caps.json";
}
// The folder of the process launcher; plugins/launchers/run_folder.h describes it.
inline std::string LauncherDir(const std::string& state_dir) {
  return state_dir + "/launcher";
}
// What applications upload and what their batches give: batches/files.h.
inline std::string FilesDir(const std::string& state_dir) {
  return state_dir + "/files";
}
// Sampled decisions are in routing.jsonl beside these: routing/files.h.

}  // namespace gateway
