#include "gateway/control/weights_step.h"

#include "plugins/weights/order.h"

namespace gateway::control {

std::optional<plugins::launchers::WeightsStep> WeightsStepOf(const config::Scaling& scaling,
                                                             const config::ModelPolicy& policy,
                                                             std::string_view kind) {
  if (!policy.weights || !scaling.weights) return std::nullopt;
  const config::WeightsStore& store = *scaling.weights;
  plugins::weights::WeightsOrder order;
  order.store = store.store;
  order.size = store.size;
  order.digest = policy.weights->digest;
  order.model = policy.model();
  order.ca = store.ca;
  order.connections = store.connections;
  order.source = config::SourceOf(*policy.weights);
  for (const config::ModelPolicy& other : scaling.models) {
    if (other.weights && other.weights->pinned) order.pins.push_back(other.weights->digest);
  }
  if (policy.replica) {
    order.cache =
        config::CacheKeyOf(*policy.weights, Name(policy.replica->engine), policy.replica->image, kind);
  }
  plugins::launchers::WeightsStep step;
  step.store = store.store;
  step.folder = plugins::weights::WeightsFolder(store.store, order.digest);
  step.digest = order.digest;
  step.cache_key = order.cache;
  if (!order.cache.empty()) step.cache = plugins::weights::CacheFolder(store.store, order.cache);
  step.program = store.program;
  step.image = store.image;
  step.claim = store.claim;
  step.order = plugins::weights::WriteOrder(order);
  return step;
}

}  // namespace gateway::control
