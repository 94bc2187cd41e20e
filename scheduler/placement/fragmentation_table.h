// FGD's fragmentation of a node under a demand mix (Weng et al., ATC'23), from a table.
//
//   F(node) = Σ_m p_m · f(m)   over the typical items m of the mix, p normalised
//   f(m)    = all idle thousandths, if m cannot run: it asks for no device, the kind is wrong, the
//             CPU is too small, or too few devices have as much left as it asks of each; otherwise the
//             idle thousandths of the devices with less left than it asks
//
// F = idle − usable, and usable is a sum over devices of left · (shares that fit) plus whole devices · (whole
// requests that fit); so F costs one row look-up and one look-up per device. Immutable once built.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/placement/demand_mix.h"
#include "scheduler/placement/lefts.h"

namespace scheduler {

class FragmentationTable {
 public:
  FragmentationTable() = default;
  FragmentationTable(const Cluster& cluster, const DemandMix& mix);

  // In thousandths; for a node with this CPU left and these devices.
  double Of(KindId kind, int64_t cpu_milli, const Lefts& lefts) const;

 private:
  size_t Row(int64_t cpu_milli) const;  // how many of the CPU thresholds it reaches

  std::vector<int64_t> cpus_;    // requested by items, ascending
  std::vector<uint16_t> level_;  // by milli left: how many of the shares' sizes it reaches
  size_t levels_ = 1;
  std::vector<float> shares_;  // by kind, row, level: Σ p of the shares that fit
  std::vector<float> wholes_;  // by kind, row, whole devices
};

}  // namespace scheduler
