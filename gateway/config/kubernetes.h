// Section `kubernetes`: the API server that the launcher and discovered endpoints use.
#pragma once

#include <string>

#include "gateway/config/types.h"

namespace gateway::config {

struct Kubernetes {
  std::string kubeconfig;  // empty: the pod's own service account
  std::string context;     // of the kubeconfig; empty: its current one
  std::string name_space;  // empty: the context's, or the pod's
};

// The name of an object that is a label of DNS (RFC 1123).
struct DnsLabel {
  std::string operator()(const std::string& name) const;
};

void Bind(conf::Object& object, Kubernetes& out);

}  // namespace gateway::config
