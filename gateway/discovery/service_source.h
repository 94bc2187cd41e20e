// ServiceSource: the pods of a Service of Kubernetes, by its EndpointSlices, which are listed and then watched. While
// the API server is away, the last addresses stay.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "gateway/discovery/endpoint_slice.h"
#include "gateway/discovery/source.h"
#include "gateway/net/loop.h"
#include "plugins/kubernetes/access.h"
#include "plugins/kubernetes/client.h"
#include "plugins/kubernetes/watch.h"

namespace gateway::discovery {

// The version of EndpointSlices to use, by the server's answer for discovery.k8s.io; empty: it has none.
std::string_view VersionOf(const nlohmann::json& group);

class ServiceSource final : public Source, public std::enable_shared_from_this<ServiceSource> {
 public:
  ServiceSource(net::Loop& loop, config::Discovery discovery, const plugins::kubernetes::Place& place,
                Listener listener);

  void Start() override;
  void Stop() override;

 private:
  using Slices = std::map<std::string, EndpointSlice>;  // by name

  static net::Task<void> Run(std::shared_ptr<ServiceSource> self);
  // The path of the collection, in the version that the server has; empty: it was stopped.
  net::Task<std::string> FindPath();
  plugins::kubernetes::Watch::Handlers Handlers();
  void Keep(const nlohmann::json& object);
  void Report();

  net::Loop& loop_;
  const config::Discovery discovery_;
  const Listener listener_;
  plugins::kubernetes::Client client_;
  std::optional<plugins::kubernetes::Watch> watch_;
  Slices slices_;
  std::optional<Slices> listing_;  // until the list is complete
  net::Sleep pause_;
  net::Event ends_;
  bool stopped_ = false;
};

}  // namespace gateway::discovery
