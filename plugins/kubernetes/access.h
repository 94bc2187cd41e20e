// Access: where an API server is, and our credentials: from a kubeconfig, or from inside a pod.
//
// ReadAccess() reads all files anew each time, so that a renewed token or certificate is found. Reading
// blocks; call it off the loop. A value is plain; secrets in it are wiped with it.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "conf/secret.h"
#include "conf/sources.h"
#include "gateway/net/url.h"

namespace plugins::kubernetes {

struct Place {
  std::string kubeconfig{};  // a file; empty: in the pod that we run in, by its service account
  std::string context{};     // of the kubeconfig; empty: the current one
  std::string name_space{};  // empty: the context's, else "default"
};

struct Access {
  gateway::net::Url server{};
  std::string name_space{};
  std::string server_name{};  // for SNI and verification; empty: the URL's host
  bool verify = true;
  std::string ca{};           // PEM; empty: the system's
  std::string certificate{};  // PEM, of the client
  conf::Secret key{};         // PEM
  conf::Secret token{};       // a bearer token
};

// Errors name the file and its key, never a value that may be secret. InvalidArgument: it is written wrongly;
// another: a file cannot be read now.
absl::StatusOr<Access> ReadAccess(const Place& place, const conf::Sources& sources);

}  // namespace plugins::kubernetes
