#include "gateway/control/weights/weights_step.h"

#include "plugins/weights/order.h"

namespace gateway::control {

namespace {

plugins::weights::WeightsOrder OrderInto(const config::Scaling& scaling) {
  const config::WeightsStore& store = *scaling.weights;
  plugins::weights::WeightsOrder order;
  order.store = store.store;
  order.size = store.size;
  order.ca = store.ca;
  order.connections = store.connections;
  if (store.neighbours) order.access = {std::string(store.neighbours->token.Reveal()), store.neighbours->ca};
  for (const config::ModelPolicy& policy : scaling.models) {
    if (policy.weights && policy.weights->pinned) order.pins.push_back(policy.weights->digest);
  }
  for (const config::DataSet& data : scaling.data_sets) {
    if (data.from.pinned) order.pins.push_back(data.from.digest);
  }
  return order;
}

plugins::launchers::WeightsStep StepOf(const config::WeightsStore& store,
                                       const plugins::weights::WeightsOrder& order) {
  plugins::launchers::WeightsStep step;
  step.store = store.store;
  step.folder = plugins::weights::WeightsFolder(store.store, order.digest);
  step.digest = order.digest;
  for (const plugins::weights::AlsoOrdered& also : order.also) step.also.push_back(also.digest);
  step.cache_key = order.cache;
  if (!order.cache.empty()) step.cache = plugins::weights::CacheFolder(store.store, order.cache);
  step.program = store.program;
  step.image = store.image;
  step.claim = store.claim;
  step.order = plugins::weights::WriteOrder(order);
  return step;
}

}  // namespace

std::optional<plugins::launchers::WeightsStep> DataStepOf(const config::Scaling& scaling,
                                                          const std::vector<config::DataSet>& data,
                                                          const NeighbourStores& neighbours) {
  if (!scaling.weights || data.empty()) return std::nullopt;
  plugins::weights::WeightsOrder order = OrderInto(scaling);
  order.digest = data.front().from.digest;
  order.model = data.front().name;
  order.source = config::SourceOf(data.front().from);
  order.neighbours = neighbours(order.digest);
  for (size_t i = 1; i < data.size(); ++i)
    order.also.push_back(
        {data[i].from.digest, data[i].name, config::SourceOf(data[i].from), neighbours(data[i].from.digest)});
  return StepOf(*scaling.weights, order);
}

std::optional<plugins::launchers::WeightsStep> WeightsStepOf(const config::Scaling& scaling,
                                                             const config::ModelPolicy& policy,
                                                             std::string_view kind,
                                                             const NeighbourStores& neighbours) {
  if (!policy.weights || !scaling.weights) return std::nullopt;
  plugins::weights::WeightsOrder order = OrderInto(scaling);
  order.digest = policy.weights->digest;
  order.model = policy.model();
  order.source = config::SourceOf(*policy.weights);
  order.neighbours = neighbours(order.digest);
  if (policy.replica) {
    order.cache =
        config::CacheKeyOf(*policy.weights, Name(policy.replica->engine), policy.replica->image, kind);
  }
  return StepOf(*scaling.weights, order);
}

}  // namespace gateway::control
