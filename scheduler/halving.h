// Successive halving, without waiting for each other: which members of a sweep go on at each of its rungs.
//
// Rungs are at `first` steps, then at `factor` times as many, and so on. A member that reaches a rung goes on if its
// value is among the best 1/factor of all that have reached it so far, or the best of fewer; else it is to be stopped.
// After Li et al., "A System for Massively Parallel Hyperparameter Tuning" (ASHA), in its form that stops. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scheduler {

struct HalvingRule {
  uint64_t first = 1;   // steps up to the first rung
  uint32_t factor = 3;  // between rungs; of those at a rung, the part that goes on
  bool maximize = false;
};

// The steps of a rung, from 0; nothing: beyond what can be counted.
std::optional<uint64_t> StepsOf(const HalvingRule& rule, size_t rung);

struct HalvingVerdict {
  bool stops = false;
  std::string why{};  // of a stop
};

class Halving {
 public:
  static constexpr size_t kMostRungs = 40;

  explicit Halving(HalvingRule rule) : rule_(rule) {}

  // A value that a member had at a rung, as kept from before.
  void Restore(size_t rung, double value);
  // The number of rungs that a member at that step has reached.
  size_t RungsAt(uint64_t step) const;
  // A member has reached the rung with that value, for the first time.
  HalvingVerdict Reach(size_t rung, double value);

 private:
  HalvingRule rule_;
  std::vector<std::vector<double>> rungs_;  // values, in the order in which they came
};

}  // namespace scheduler
