// ReplicaKeys: the keys that the engines of launched replicas demand of their callers.
//
// A replica's key is made of a secret that the store keeps and of the replica's id. So a gateway that restarts or
// takes over knows the keys of the running replicas, and no record holds a key. A copy of the secret is kept beside
// the store: if a lost store were rebuilt without the secret, every running replica would have to end.
//
// Thread: the control loop's.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "conf/secret.h"
#include "gateway/net/task.h"
#include "gateway/store/store.h"

namespace gateway::control {

class ReplicaKeys {
 public:
  ReplicaKeys() = default;  // knows no key before it is loaded
  // With the secret of the store, which is made the first time.
  static net::Task<absl::StatusOr<ReplicaKeys>> Load(store::Store& store);

  // Makes the file a copy of the secret, mode 0600. Blocks.
  absl::Status Keep(const std::string& path) const;
  // The secret of a copy; NotFound without one, DataLoss when it is no secret. Blocks.
  static absl::StatusOr<std::string> ReadCopy(const std::string& path);

  conf::Secret Of(std::string_view replica) const;

  // The replica's key among wrong ones, which its engine must refuse. Only a process with the secret can tell which
  // key is right; the keys are the same each time.
  struct Trial {
    std::vector<conf::Secret> keys;
    size_t right = 0;  // the place of its own
  };
  Trial TrialOf(std::string_view replica, size_t others) const;

 private:
  explicit ReplicaKeys(conf::Secret secret) : secret_(std::move(secret)) {}
  conf::Secret secret_;
};

}  // namespace gateway::control
