// The metrics of a cluster, live and in the simulator: pure functions with their formulas.
//
// GAR, SOR and GFR are named as in Kant's paper; the definitions are here. JTTED has a file of its own (jtted.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/placement/demand_mix.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

// Classes of jobs by devices, as waits are reported: below 8, 8–63, 64–255, 256–1023, 1024 and more.
inline constexpr size_t kSizeClasses = 5;
inline constexpr std::array<std::string_view, kSizeClasses> kSizeClassNames = {"<8", "8-63", "64-255",
                                                                               "256-1023", ">=1024"};
size_t SizeClass(int64_t device_milli);

// Allocated over all devices of healthy nodes: 0 for a cluster without any.
double AllocationRate(const ClusterTotals& totals);

// SOR: the held part of the available device time; 0 without device time. Both in the same unit.
double OccupationRate(double held, double capacity);

// The part of the nodes with devices, among those that may take work, on which some but not all devices are taken.
double FragmentationRate(const ClusterTotals& totals);

// FGD's measure, as a share of all healthy devices: the sum, over nodes and items of the mix, of the idle device share
// that the item could not use on that node, weighted by the item.
double FragmentedShare(const ClusterState& state, const DemandMix& mix);

// The q-quantile (0 to 1) of values in ascending order, between neighbours linearly; 0 for none.
double Quantile(std::span<const double> sorted, double q);
double Mean(std::span<const double> values);

// (Σx)² / (n·Σx²): 1 when all are equal, 1/n when one has all; 1 for no values and for all zero.
double JainIndex(std::span<const double> values);

// max(1, turnaround / max(run, bound)): how much longer a job took than alone; the bound keeps jobs of
// seconds from ruling the mean.
double BoundedSlowdown(double turnaround_s, double run_s, double bound_s = 10);

}  // namespace scheduler
