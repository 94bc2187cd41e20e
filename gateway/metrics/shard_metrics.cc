#include "gateway/metrics/shard_metrics.h"

#include <algorithm>
#include <cmath>

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

void LogCells::Observe(conf::Duration d) {
  constexpr double kMillion = 1e6;
  const double log = std::log(std::max(1.0, conf::ToSeconds(d) * kMillion));
  count.Add();
  sum.Add(static_cast<uint64_t>(log * kMillion));
  sum_of_squares.Add(static_cast<uint64_t>(log * log * kMillion));
}

void TokenCells::Observe(uint64_t tokens) {
  BucketOf(*this, static_cast<double>(tokens)).Add();
  sum.Add(tokens);
}

void ShardMetrics::Bind(const ServedNames& names) {
  const std::lock_guard lock(mutex_);
  bound_ = &names;
  by_model_.clear();
  by_class_.clear();
  by_replica_.clear();
  for (size_t m = 0; m < names.models.size(); ++m) {
    auto& cells_of = models_[names.models[m]];
    if (!cells_of) cells_of = std::make_unique<ModelCells>();
    by_model_.push_back(cells_of.get());
    std::vector<ClassCells*>& classes = by_class_.emplace_back();
    for (const std::string& band : names.bands[m]) {
      auto& of_class = cells_of->classes[band];
      if (!of_class) of_class = std::make_unique<ClassCells>();
      classes.push_back(of_class.get());
    }
  }
  for (const std::string& replica : names.replicas) {
    auto& cells_of = replicas_[replica];
    if (!cells_of) cells_of = std::make_unique<ReplicaCells>();
    by_replica_.push_back(cells_of.get());
  }
}

ModelCells& ShardMetrics::Earlier(const ServedNames& names, ModelId id) {
  return *models_.at(names.models[static_cast<size_t>(id)]);
}

ClassCells& ShardMetrics::Earlier(const ServedNames& names, ModelId id, size_t band) {
  return *Earlier(names, id).classes.at(names.bands[static_cast<size_t>(id)][band]);
}

ReplicaCells& ShardMetrics::Earlier(const ServedNames& names, ReplicaId id) {
  return *replicas_.at(names.replicas[static_cast<size_t>(id)]);
}

}  // namespace gateway
