#include "scheduler/placement/empty_cluster.h"

#include <utility>

#include "scheduler/placement/policies.h"
#include "scheduler/rng.h"

namespace scheduler {
namespace {

Cluster Healthy(Cluster cluster) {
  for (Node& node : cluster.nodes) node.health = Health::kHealthy;
  return cluster;
}

}  // namespace

EmptyCluster::EmptyCluster(Cluster cluster)
    : cluster_(Healthy(std::move(cluster))),
      state_(cluster_),
      shapes_(cluster_),
      table_(shapes_),
      resources_(cluster_.resources),
      placer_(state_, shapes_, *FindPlacementPolicy("binpack")),
      gangs_(state_, shapes_) {}

bool EmptyCluster::Holds(const Job& job) {
  if (resources_.FirstImpossible(job.resources)) return false;
  const JobIndex index = table_.Add(job, 0);
  const JobEntry& entry = table_[index];
  if (entry.signature >= known_.size()) known_.resize(entry.signature + 1, kUnknown);
  char& known = known_[entry.signature];
  if (known == kUnknown) {
    Trial trial(state_);
    Rng rng(1);
    known = gangs_.Place(trial, placer_, index, entry, nullptr, rng).placed.empty() ? kNo : kYes;
    trial.Rollback(0);
  }
  const bool holds = known == kYes;
  table_.Erase(index);
  return holds;
}

}  // namespace scheduler
