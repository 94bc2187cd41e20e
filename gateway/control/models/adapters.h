// Adapters: the LoRA adapters that operators have loaded at run time. The store keeps them, so they outlive the
// gateway, and each gateway follows the changes of the others. AdapterLoads has engines load them.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's. Bounded: kMostOfBase of a base.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>
#include <vector>

#include "gateway/config/adapters.h"
#include "gateway/control/models/adapter.h"
#include "gateway/ledger/record.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "gateway/store/stored_copy.h"

namespace gateway::control {

class Adapters {
 public:
  static constexpr size_t kMostOfBase = router::AdapterSlots::kMaxHeld;

  struct Environment {
    // The event is on disk when it returns.
    std::function<net::Task<absl::Status>(ledger::Event)> record;
    std::function<std::shared_ptr<const Runtime>()> runtime;
    // The term in which this gateway leads; 0: no other gateway may lead.
    std::function<uint64_t()> epoch = [] { return uint64_t{0}; };
    // Adapters have changed.
    std::function<void()> changed = [] {};
  };

  // All outlive it.
  Adapters(net::Loop& loop, store::Store& store, Environment env);

  // The present adapters are known when it returns Ok.
  net::Task<absl::Status> Start() { return stored_.Start(); }
  void Stop() { stored_.Stop(); }

  // Checks the adapter, then records it in the ledger and in the store. A shared store alone knows who leads, so there
  // one write does both. Errors: NotFound (no such base), InvalidArgument (name or source), AlreadyExists,
  // ResourceExhausted, and those of the store.
  net::Task<absl::Status> Load(Adapter adapter);
  // Requests for it are refused from now on, and the engines unload it. NotFound: no such adapter is loaded.
  net::Task<absl::Status> Unload(std::string base, std::string name, std::string by);
  // Forgets it: the engines have refused it, or none holds it any more.
  net::Task<absl::Status> Forget(std::string base, std::string name, std::string_view action,
                                 std::string why);
  // Records what was done with an adapter at a replica.
  net::Task<absl::Status> Note(Adapter adapter, std::string_view action, std::string replica,
                               std::string why);

  // Null: there is none.
  const Adapter* Find(std::string_view base, std::string_view name) const;
  // By base and name.
  std::vector<Adapter> All() const;
  // The adapters that requests may use: without those that are being unloaded.
  std::vector<config::RunTimeAdapter> InForce() const;
  bool empty() const { return stored_.all().empty(); }

 private:
  absl::Status Check(const Adapter& adapter) const;
  net::Task<absl::Status> Commit(ledger::Event event, store::Write write);

  const Environment env_;
  store::StoredCopy<Adapter> stored_;
};

}  // namespace gateway::control
