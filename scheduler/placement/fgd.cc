#include "scheduler/placement/fgd.h"

#include <bit>
#include <cmath>

#include "scheduler/placement/devices.h"
#include "scheduler/placement/partition_choice.h"

namespace scheduler {
namespace {

struct Best {
  double score = -1;
  size_t device = 0;
};

double Rounded(double gain_milli) {
  return std::trunc(100 / (1 + std::exp(-gain_milli / kWholeDevice)));
}

Best BestShare(const ScoreInput& input, Lefts& lefts) {
  const FragmentationTable& table = input.tables.fragmentation;
  const KindId kind = input.view.type->kind;
  const int64_t cpu = input.state.free_cpu_milli;
  const double before = table.Of(kind, cpu, lefts);
  Best best;
  for (size_t d = 0; d < lefts.devices; ++d) {
    if (!TakesShare(input, d)) continue;
    Lefts after = lefts;
    TakeFrom(after, d, input.shape.milli);
    const double score = Rounded(before - table.Of(kind, cpu - input.shape.cpu_milli, after));
    if (score > best.score) best = {score, d};
  }
  return best;
}

bool IsShare(const Shape& shape) {
  return shape.needs_device() && shape.count == 0 && !shape.is_partition();
}

}  // namespace

double FgdScore(const ScoreInput& input) {
  if (input.state.devices == 0) return Rounded(0);
  const FragmentationTable& table = input.tables.fragmentation;
  const KindId kind = input.view.type->kind;
  const int64_t cpu = input.state.free_cpu_milli;
  Lefts lefts = LeftsOf(input.state, input.view);
  if (IsShare(input.shape)) return BestShare(input, lefts).score;
  const double before = table.Of(kind, cpu, lefts);
  if (input.shape.count > 0) {
    TakeWhole(lefts, input.shape.count);
  } else if (input.shape.is_partition()) {
    TakeFrom(lefts, static_cast<size_t>(std::countr_zero(KindestPartition(input).devices)),
             ShareMilli(input.shape, input.cluster, kind));
  }
  return Rounded(before - table.Of(kind, cpu - input.shape.cpu_milli, lefts));
}

DeviceChoice FgdDevices(const ScoreInput& input) {
  if (!IsShare(input.shape)) return TightestDevices(input);
  Lefts lefts = LeftsOf(input.state, input.view);
  return {uint32_t{1} << BestShare(input, lefts).device};
}

}  // namespace scheduler
