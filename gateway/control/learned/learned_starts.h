// LearnedStarts: how long the next replica of a model will take until it is ready, learned from the phases of earlier
// starts: the start itself on each node and kind of device, and the fetch of the weights to each node.
//
// A node counts by its own starts once there are kOwn of them, else by those of its kind, else by the model's.
// Bounded: kKept durations for each model and node. One thread.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/control/workloads/start_phases.h"

namespace gateway::control {

// Where the next replica may go.
struct StartPlace {
  std::string node{};
  std::string kind{};
  bool holds_weights = true;  // also where the model has none
  bool free = false;          // there are devices for it now
};

class LearnedStarts {
 public:
  static constexpr size_t kKept = 64;
  static constexpr size_t kOwn = 3;

  void Add(const std::string& model, const std::string& node, const std::string& kind,
           const StartPhases& phases);

  struct Start {
    std::string node{};
    std::string kind{};
    StartPhases phases{};
  };
  // The model's last starts, at most `most` of each node, the oldest first.
  std::vector<Start> Last(const std::string& model, size_t most) const;
  // A start that an earlier process saw.
  void Recall(const std::string& model, const Start& start);

  bool Knows(const std::string& model) const;

  // The longest at the places that the planner prefers: with free devices, and among these with the weights.
  // Zero: no start was measured.
  conf::Duration Lead(const std::string& model, std::span<const StartPlace> places, double q) const;

  // Quantiles of each phase, over the model's last starts on one kind of device.
  struct Row {
    std::string model{};
    std::string kind{};
    size_t starts = 0;
    std::array<conf::Duration, kStartPhases> p50{};
    std::array<conf::Duration, kStartPhases> p90{};
  };
  std::vector<Row> rows() const;
  uint64_t transferred() const { return transferred_; }          // bytes of weights, since the start
  uint64_t from_neighbours() const { return from_neighbours_; }  // of these

 private:
  struct Starts {
    std::string kind{};
    std::deque<StartPhases> last{};
  };
  conf::Duration StartAt(const std::string& model, const StartPlace& place, double q) const;
  conf::Duration FetchAt(const std::string& model, const StartPlace& place, double q) const;
  // Durations of the model's starts that `fits` accepts.
  template <class Fits, class Of>
  std::vector<conf::Duration> Collect(const std::string& model, Fits fits, Of of) const;

  std::map<std::pair<std::string, std::string>, Starts> starts_;  // by model and node
  uint64_t transferred_ = 0;
  uint64_t from_neighbours_ = 0;
};

}  // namespace gateway::control
