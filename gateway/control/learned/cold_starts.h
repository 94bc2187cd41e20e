// ColdStarts: durations of the last starts, by model and kind of device. Bounded: kKept for each. One thread.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"

namespace gateway::control {

class ColdStarts {
 public:
  static constexpr size_t kKept = 64;

  void Add(const std::string& model, const std::string& kind, conf::Duration took) {
    std::deque<conf::Duration>& of = took_[{model, kind}];
    of.push_back(took);
    if (of.size() > kKept) of.pop_front();
  }

  // For the model on this kind; zero: no start was measured.
  conf::Duration Quantile(const std::string& model, const std::string& kind, double q) const {
    const auto of = took_.find({model, kind});
    if (of == took_.end()) return {};
    std::vector<conf::Duration> sorted(of->second.begin(), of->second.end());
    std::ranges::sort(sorted);
    const double at = q * static_cast<double>(sorted.size() - 1);
    return sorted[static_cast<size_t>(std::clamp(at + 0.5, 0.0, static_cast<double>(sorted.size() - 1)))];
  }
  // The longest over the model's kinds.
  conf::Duration Quantile(const std::string& model, double q) const {
    conf::Duration longest{};
    for (const auto& [of, took] : took_) {
      if (of.first == model) longest = std::max(longest, Quantile(model, of.second, q));
    }
    return longest;
  }

  struct Start {
    std::string kind{};
    conf::Duration took{};
  };
  // The model's last starts, at most `most` of each kind, the oldest first.
  std::vector<Start> Last(const std::string& model, size_t most) const {
    std::vector<Start> out;
    for (const auto& [of, took] : took_) {
      if (of.first != model) continue;
      for (size_t i = took.size() - std::min(most, took.size()); i < took.size(); ++i)
        out.push_back({of.second, took[i]});
    }
    return out;
  }

  struct Row {
    std::string model;
    std::string kind;
    size_t starts = 0;
  };
  std::vector<Row> rows() const {
    std::vector<Row> rows;
    rows.reserve(took_.size());
    for (const auto& [of, took] : took_) rows.push_back({of.first, of.second, took.size()});
    return rows;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::deque<conf::Duration>> took_;
};

}  // namespace gateway::control
