// Whether the process at a replica's address is the engine that was launched: it refuses callers without the replica's
// key, and accepts the key.
//
// A process that took the address first must not learn the key from these requests. So the key is hidden among several
// that look alike, and the process must accept this one and refuse the others. A process that does not know the key
// can only guess; a wrong guess ends the replica, and with it the key.
#pragma once

#include <memory>
#include <string>

#include "gateway/config/model.h"
#include "gateway/control/launching/replica_keys.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/task.h"
#include "gateway/net/tls.h"

namespace gateway::control {

struct Proof {
  enum class Is {
    kGiven,
    kNotYet,  // it does not answer as it should, and may do so later
    kNever,   // it is another process, or it demands another key or none
  };
  Is is = Is::kNotYet;
  std::string why{};
};

// Asks the engine of `endpoint` with no key and with each of the trial's, one after the other. `tls` is null
// where the endpoint has none.
net::Task<Proof> ProveReplica(net::Loop& loop, std::shared_ptr<const config::Endpoint> endpoint,
                              ReplicaKeys::Trial trial, std::shared_ptr<const net::TlsContext> tls,
                              net::AbortGroup* group);

// A request of the gateway to a replica that is not in its routes.
struct Question {
  std::string_view path;
  std::string_view query = {};
  std::string_view body = {};  // of a POST, as JSON; empty: a GET
  conf::Duration timeout = std::chrono::seconds(2);
};
// The status of the answer; an error: no answer came.
net::Task<absl::StatusOr<int>> AskLaunched(net::Loop& loop, const config::Endpoint& endpoint,
                                           Question question, const conf::Secret* key,
                                           std::shared_ptr<const net::TlsContext> tls,
                                           net::AbortGroup* group);

// The rules for the endpoint's certificate; null where the endpoint has none.
absl::StatusOr<std::shared_ptr<const net::TlsContext>> TlsFor(const config::Endpoint& endpoint);

// An engine's "I do not know you".
inline bool RefusesCaller(int status) {
  return status == 401 || status == 403;
}

}  // namespace gateway::control
