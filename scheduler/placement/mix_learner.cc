#include "scheduler/placement/mix_learner.h"

#include <algorithm>

namespace scheduler {
namespace {

constexpr uint64_t kPriorEach = 5;     // asks that the guess is worth, of each of its two shapes
constexpr uint64_t kEveryFrom = 1000;  // asks from which the mix is brought up to date every as many

uint64_t Next(uint64_t observed) {
  return observed < kEveryFrom ? std::max(observed * 3 / 2, observed + 1) : observed + kEveryFrom;
}

DemandCounts Prior(const Cluster& cluster) {
  DemandCounts counts;
  int64_t cpu = 0;
  int64_t devices = 0;
  uint64_t kinds = 0;
  for (const Node& node : cluster.nodes) {
    const NodeType& type = cluster.types[node.type];
    cpu += type.cpu_milli;
    devices += type.devices;
    if (type.devices > 0) kinds |= uint64_t{1} << type.kind;
  }
  if (devices == 0) return counts;
  Shape half;
  half.cpu_milli = cpu / devices / 2;
  half.milli = kWholeDevice / 2;
  half.kinds = kinds;
  Shape whole;
  whole.cpu_milli = cpu / devices;
  whole.count = 1;
  whole.kinds = kinds;
  counts.Add(half, kPriorEach);
  counts.Add(whole, kPriorEach);
  return counts;
}

DemandCounts CountsOf(const std::vector<DemandCount>& items) {
  DemandCounts counts;
  for (const DemandCount& item : items) counts.Add(item.shape, item.count);
  return counts;
}

}  // namespace

MixLearner::MixLearner(const Cluster& cluster) : seen_(Prior(cluster)) {
  Refresh();
}

MixLearner::MixLearner(const LearnedDemand& known)
    : seen_(CountsOf(known.seen)),
      in_use_(CountsOf(known.in_use)),
      observed_(known.observed),
      next_(known.next),
      version_(known.version),
      mix_(in_use_.Mix(known.version)) {}

LearnedDemand MixLearner::state() const {
  return {seen_.items(), in_use_.items(), observed_, next_, version_};
}

void MixLearner::Refresh() {
  in_use_ = seen_;
  mix_ = in_use_.Mix(++version_);
}

bool MixLearner::Observe(const Shape& shape, uint64_t times) {
  seen_.Add(shape, times);
  observed_ += times;
  while (seen_.items().size() > kMostShapes) seen_.Halve();
  if (observed_ < next_) return false;
  while (next_ <= observed_) next_ = Next(next_);
  Refresh();
  return true;
}

}  // namespace scheduler
