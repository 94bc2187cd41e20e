// Asynchronous successive halving: which members of a sweep continue at each of its rungs.
//
// Rungs are at `first` steps, then at `factor` times as many, and so on. A member that reaches a rung continues if its
// value is among the best 1/factor of the values so far at this rung, or the best while there are fewer than `factor`;
// otherwise it is to be stopped. After Li et al., "A System for Massively Parallel Hyperparameter Tuning" (ASHA), the
// variant that stops members. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scheduler {

struct HalvingRule {
  uint64_t first = 1;   // steps up to the first rung
  uint32_t factor = 3;  // between rungs; one of `factor` members continues at each rung
  bool maximize = false;
};

// The steps of a rung; rungs count from 0. Absent: the number is too large.
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
