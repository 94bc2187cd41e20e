// ModelOrders: which models operators have paused or held. The store keeps the orders, so they outlive the gateway,
// and each gateway follows the changes of the others.
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gateway/control/models/model_order.h"
#include "gateway/ledger/record.h"
#include "gateway/net/loop.h"
#include "gateway/shard/model_switch.h"
#include "gateway/store/follower.h"

namespace gateway::control {

class ModelOrders {
 public:
  struct Environment {
    // The event is on disk when it returns.
    std::function<net::Task<absl::Status>(ledger::Event)> record;
    // Orders have changed.
    std::function<void()> changed = [] {};
  };

  // All outlive it.
  ModelOrders(net::Loop& loop, store::Store& store, ModelSwitches& switches, Environment env);

  // The present orders are in force when it returns Ok.
  net::Task<absl::Status> Start();
  void Stop() { follower_.Stop(); }

  // An order is in the ledger, in the store and in force when these return. A new order replaces an earlier one.
  // Errors: FailedPrecondition (no such order to lift), and those of the store.
  net::Task<absl::Status> Pause(std::string model, ModelOrder order);
  net::Task<absl::Status> Resume(std::string model, ModelOrder by);
  net::Task<absl::Status> Hold(std::string model, ModelOrder order);
  net::Task<absl::Status> Release(std::string model, ModelOrder by);

  // Null: it is not paused.
  const ModelOrder* Paused(const std::string& model) const;
  // Null: it is not held, or no longer.
  const ModelOrder* Held(const std::string& model, conf::TimePoint now) const;

 private:
  struct Stored {
    OrdersOfModel orders;
    uint64_t version = 0;
  };

  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& model, uint64_t version, const std::string& body);
  void Drop(const std::string& model);
  void Switch(const std::string& model, const OrdersOfModel& orders);
  net::Task<absl::Status> Write(std::string model, ModelOrder order, std::string_view action);

  store::Store& store_;
  ModelSwitches& switches_;
  const Environment env_;
  store::Follower follower_;
  std::map<std::string, Stored> stored_;  // by model
};

}  // namespace gateway::control
