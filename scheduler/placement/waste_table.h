// The expected final waste of GPU on a node if the demand mix keeps arriving. `tide` (tide.h) minimizes it.
//
//   V(node) = ( Σ_devices W(left) + 0.5 · D(node) ) / 1000, in devices
//
// W, the expected final waste of a device. Requests for devices arrive as in the mix, with the total rate 1,
// and end at rate ε. On a node whose free CPU admits the items of one row:
//   W(l) = ( ε·l + Σ_{shares m ≤ l} p_m · W(l − m) ) / ( ε + Σ same p_m )
// For a wholly free device beside k − 1 others, the rates of requests for 1 to k whole devices are added to
// the denominator: they waste nothing.
// Sizes are counted in steps of 10 thousandths: what is left is rounded down, requests are rounded up.
//
// D, the idle GPU that the node's free CPU cannot feed. κ is the mix's CPU per GPU, σ² its variance, L the
// idle GPU, c the free CPU; d = κL − c, s = 0.1·σ·√L:
//   D = E max(0, d + s·Z) / κ = ( d·Φ(d/s) + s·φ(d/s) ) / κ
//
// The price of a kind: the part of its capacity that requests bound to certain kinds (this one among them)
// will need when the whole demand equals the whole capacity; at most 1.
//
// Immutable once built (under a millisecond for some hundred items).
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/placement/demand_mix.h"
#include "scheduler/placement/lefts.h"

namespace scheduler {

class WasteTable {
 public:
  WasteTable() = default;
  WasteTable(const Cluster& cluster, const DemandMix& mix);

  // V of nodes of one kind with one amount of free CPU, for any devices left.
  class OnNode {
   public:
    double Devices(const Lefts& lefts) const;  // Σ W, in thousandths
    // Σ W after `milli` of a device with `left` are taken; `sum` is Σ W of `lefts`.
    double DevicesAfter(double sum, const Lefts& lefts, uint16_t left, int milli) const;

   private:
    friend class WasteTable;
    double Part(int left) const { return double{part_[left / kStep]}; }
    double Whole(int count) const { return double{whole_[count]} * count; }

    const float* part_ = nullptr;
    const float* whole_ = nullptr;
  };
  OnNode On(KindId kind, int64_t cpu_milli) const;
  double Starved(int64_t cpu_milli, int idle_milli) const;  // D, in milli
  double Price(KindId kind) const { return price_[kind]; }

  static double InDevices(double devices_waste, double starved) {
    return (devices_waste + kStarvedWeight * starved) / kWholeDevice;
  }

 private:
  static constexpr int kStep = 10;  // milli
  static constexpr double kStarvedWeight = 0.5;

  void Fill(const Cluster& cluster, const DemandMix& mix, const std::vector<size_t>& typical);
  void SetCpuDemand(const Cluster& cluster, const DemandMix& mix);
  void SetPrices(const Cluster& cluster, const DemandMix& mix);

  std::vector<int64_t> cpus_;  // thresholds, ascending; row r admits what asks for at most cpus_[r − 1]
  std::vector<float> part_;    // by kind, row, left
  std::vector<float> whole_;   // by kind, row, whole devices
  std::vector<double> price_;  // by kind
  double cpu_per_milli_ = 0;   // κ
  double deviation_ = 0;       // 0.1·σ
};

}  // namespace scheduler
