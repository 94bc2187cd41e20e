// RecentTraffic: rates of each model over the last minute, total and by class, and quantiles of the time to
// the first token and between tokens, from the shards' cells.
//
// Keeps the values of the cells every few seconds; a window is the difference to the oldest of them.
// Quantiles come from histograms: exact to a bucket, evenly spread within it. Bounded: kSteps small sums a
// model.
//
// Owner: the Process. Thread: the control loop's.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/metrics/shard_metrics.h"
#include "gateway/net/watchdog.h"

namespace gateway {

// The smallest value that a part `q` of the counted values does not exceed; absent without counted values. Values
// above the last bound count as that bound.
std::optional<double> QuantileOf(std::span<const double> bounds, std::span<const uint64_t> counts, double q);

class RecentTraffic final : private net::Alarm {
 public:
  using Shards = std::function<std::vector<const ShardMetrics*>()>;

  struct Quantiles {
    double p50 = 0;  // seconds
    double p90 = 0;
    double p99 = 0;
  };
  // One class of the model's requests (ClassCells).
  struct ClassRow {
    std::string name;
    uint64_t requests = 0;  // requests that came in the window
    uint64_t prompt_tokens = 0;
    uint64_t refused = 0;  // because the queue was full
    std::optional<Quantiles> first_token{};
    std::optional<Quantiles> inter_token{};
  };
  struct Row {
    std::string model;
    double seconds = 0;  // of the window
    uint64_t requests = 0;
    uint64_t errors = 0;
    uint64_t output_tokens = 0;
    std::optional<Quantiles> first_token{};  // nothing: no answer came
    std::optional<Quantiles> inter_token{};
    std::vector<ClassRow> classes{};  // by name
  };

  static constexpr conf::Duration kStep = std::chrono::seconds(5);
  static constexpr size_t kSteps = 12;

  RecentTraffic(net::Watchdog& watchdog, Shards shards) : Alarm(watchdog), shards_(std::move(shards)) {}

  void Begin(conf::TimePoint now);
  // Call it every kStep; Begin sets an alarm that does.
  void Step(conf::TimePoint now);
  // By model.
  std::vector<Row> Rows(conf::TimePoint now) const;

 private:
  static constexpr size_t kBuckets = DurationCells::kBounds.size() + 1;
  struct ClassSums {
    uint64_t requests = 0;
    uint64_t prompt_tokens = 0;
    uint64_t refused = 0;
    std::array<uint64_t, kBuckets> first_token{};
    std::array<uint64_t, kBuckets> inter_token{};
  };
  struct Sums {
    uint64_t requests = 0;
    uint64_t errors = 0;
    uint64_t output_tokens = 0;
    std::array<uint64_t, kBuckets> first_token{};
    std::array<uint64_t, kBuckets> inter_token{};
    std::map<std::string, ClassSums, std::less<>> classes;
  };
  struct Known {
    conf::TimePoint at;
    std::map<std::string, Sums> models;
  };

  void OnAlarm() override;
  std::map<std::string, Sums> AddUp() const;
  static std::vector<ClassRow> ClassRows(const Sums& now, const Sums& before);

  const Shards shards_;
  std::deque<Known> known_;
};

}  // namespace gateway
