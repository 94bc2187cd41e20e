// ScaledModels: the models whose replicas Kubernetes runs. It follows the number of replicas of each one's object, and
// writes the number that the autoscaler wants through the scale subresource.
//
// Before fewer replicas are wanted, the pods of a Deployment get a deletion cost by the requests that they work on;
// Kubernetes chooses among them. A wanted number is valid for a moment only: a loop that has lost the lead writes
// nothing.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/config/config.h"
#include "gateway/control/scaling/scale_law.h"
#include "gateway/ledger/record.h"
#include "gateway/net/loop.h"
#include "plugins/kubernetes/client.h"

namespace gateway::control {

class ScaledModels {
 public:
  struct Pod {
    std::string name;  // NAMESPACE/NAME
    uint32_t requests = 0;
  };
  struct Environment {
    std::function<net::Task<absl::Status>(ledger::Event)> record;  // on disk when it returns
    std::function<std::vector<Pod>(const std::string& model)> pods;
  };
  struct View {
    std::optional<uint32_t> replicas;  // of the object's spec; nothing: not known
    std::string trouble;               // empty: none
  };

  ScaledModels(net::Loop& loop, Environment env);
  ~ScaledModels();

  // Follows the objects of these policies, and no others.
  void Configure(const Config& config);
  // Call it with each decision.
  void Want(const std::string& model, uint32_t replicas, const std::string& why);
  View ViewOf(const std::string& model) const;
  // Ends what is under way; it has ended when under_way() is 0.
  void Close();
  size_t under_way() const { return under_way_; }

 private:
  struct Followed;

  net::Task<void> Follow(std::shared_ptr<Followed> of);
  net::Task<absl::Status> Step(Followed& of);
  net::Task<absl::Status> Read(Followed& of);
  net::Task<void> TellDeletionCosts(Followed& of);
  net::Task<absl::Status> Record(const Followed& of, std::string action, std::string detail);
  std::string NameSpaceOf(const Followed& of) const;

  net::Loop& loop_;
  const Environment env_;
  std::unique_ptr<plugins::kubernetes::Client> client_;        // null until a policy scales
  std::map<std::string, std::shared_ptr<Followed>> followed_;  // by model
  size_t under_way_ = 0;
  bool closing_ = false;
};

}  // namespace gateway::control
