#include "gateway/metrics/shard_metrics.h"

#include <algorithm>

#include "gateway/runtime.h"

namespace gateway {

namespace {

template <class Cells>
Cell& BucketOf(Cells& cells, double value) {
  const auto bucket =
      std::lower_bound(Cells::kBounds.begin(), Cells::kBounds.end(), value) - Cells::kBounds.begin();
  return cells.buckets[static_cast<size_t>(bucket)];
}

}  // namespace

void DurationCells::Observe(conf::Duration d) {
  BucketOf(*this, conf::ToSeconds(d)).Add();
  sum_ns.Add(static_cast<uint64_t>(std::max<int64_t>(d.count(), 0)));
}

void TokenCells::Observe(uint64_t tokens) {
  BucketOf(*this, static_cast<double>(tokens)).Add();
  sum.Add(tokens);
}

void ShardMetrics::Bind(const Runtime& runtime) {
  const std::lock_guard lock(mutex_);
  bound_ = &runtime;
  by_model_.clear();
  by_class_.clear();
  by_replica_.clear();
  for (const router::Model& model : runtime.routes().models()) {
    auto& cells_of = models_[model.spec.name];
    if (!cells_of) cells_of = std::make_unique<ModelCells>();
    by_model_.push_back(cells_of.get());
    std::vector<ClassCells*>& classes = by_class_.emplace_back();
    for (const config::Band& band : runtime.model(model.id).config->queue.bands) {
      auto& of_class = cells_of->classes[band.name];
      if (!of_class) of_class = std::make_unique<ClassCells>();
      classes.push_back(of_class.get());
    }
  }
  for (const router::Replica& replica : runtime.routes().replicas()) {
    auto& cells_of = replicas_[replica.spec.identity];
    if (!cells_of) cells_of = std::make_unique<ReplicaCells>();
    by_replica_.push_back(cells_of.get());
  }
}

ModelCells& ShardMetrics::Earlier(const Runtime& runtime, ModelId id) {
  return *models_.at(runtime.routes().model(id).spec.name);
}

ClassCells& ShardMetrics::Earlier(const Runtime& runtime, ModelId id, size_t band) {
  return *Earlier(runtime, id).classes.at(runtime.model(id).config->queue.bands[band].name);
}

ReplicaCells& ShardMetrics::Earlier(const Runtime& runtime, ReplicaId id) {
  return *replicas_.at(runtime.routes().replica(id).spec.identity);
}

}  // namespace gateway
