#include "scheduler/queues/run_history.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scheduler {
namespace {

constexpr double kLeastRuns = 0.5;  // with less a class is forgotten

double SecondsOf(conf::Duration run) {
  return conf::ToSeconds(std::clamp(run, conf::Duration::zero(), RunHistory::kLongestRun));
}

void AddPrior(double& mean, double& square, const RunSums& sums) {
  const double runs = sums.runs + RunHistory::kPriorRuns;
  mean = (sums.seconds + RunHistory::kPriorRuns * mean) / runs;
  square = (sums.squares + RunHistory::kPriorRuns * square) / runs;
}

}  // namespace

RunHistory::RunHistory(const LearnedRuns& known, conf::Duration unknown) : RunHistory(unknown) {
  for (const RunsOfClass& one : known) {
    if (index_.emplace(one.of, static_cast<uint32_t>(sums_.size())).second) sums_.push_back(one.sums);
  }
}

LearnedRuns RunHistory::state() const {
  LearnedRuns learned;
  learned.reserve(index_.size());
  for (const auto& [of, at] : index_) learned.push_back({of, sums_[at]});
  return learned;
}

std::optional<RunClass> RunHistory::ClassOf(const Job& job) {
  if (job.work == WorkClass::kInference) return std::nullopt;
  RunClass of{.work = job.work, .tenant = job.tenant, .user = job.user, .application = job.application};
  if (const auto stated = job.estimate ? job.estimate : job.limit) {
    const auto seconds = static_cast<uint64_t>(SecondsOf(*stated));
    of.stated = static_cast<uint8_t>(std::bit_width(std::max<uint64_t>(seconds, 1)));
  }
  const int64_t devices = (DeviceMilli(job) + kWholeDevice - 1) / kWholeDevice;
  of.size = static_cast<uint8_t>(1 + std::bit_width(static_cast<uint64_t>(devices)));
  return of;
}

RunHistory::Levels RunHistory::LevelsOf(const RunClass& of) {
  Levels levels;
  RunClass any{.work = of.work, .stated = of.stated};
  levels[0] = any;
  any.size = of.size;
  levels[1] = any;
  if (of.tenant.empty() && of.user.empty() && of.application.empty()) return levels;
  any.tenant = of.tenant;
  any.user = of.user;
  if (!of.tenant.empty() || !of.user.empty()) {
    levels[3] = any;
    any.size = 0;
    levels[2] = any;
  }
  if (!of.application.empty()) levels[4] = of;
  return levels;
}

double RunHistory::FirstGuess(const RunClass& of) const {
  if (of.stated == 0) return SecondsOf(unknown_);
  return std::min(std::ldexp(1.5, of.stated - 1), SecondsOf(kLongestRun));
}

void RunHistory::Add(const RunClass& of, conf::Duration run) {
  const double seconds = SecondsOf(run);
  for (const std::optional<RunClass>& level : LevelsOf(of)) {
    if (!level) continue;
    const auto [at, is_new] = index_.try_emplace(*level, static_cast<uint32_t>(sums_.size()));
    if (is_new) {
      sums_.emplace_back();
      ++layout_;
    }
    RunSums& sums = sums_[at->second];
    sums.runs = kKeep * sums.runs + 1;
    sums.seconds = kKeep * sums.seconds + seconds;
    sums.squares = kKeep * sums.squares + seconds * seconds;
  }
  while (index_.size() > kMostClasses) Forget();
}

void RunHistory::Forget() {
  std::vector<RunSums> kept;
  for (auto at = index_.begin(); at != index_.end();) {
    RunSums half = sums_[at->second];
    half.runs /= 2;
    half.seconds /= 2;
    half.squares /= 2;
    if (half.runs < kLeastRuns) {
      at = index_.erase(at);
      continue;
    }
    at->second = static_cast<uint32_t>(kept.size());
    kept.push_back(half);
    ++at;
  }
  sums_ = std::move(kept);
  ++layout_;
}

double RunHistory::ExpectedSeconds(const RunClass& of, Chain& chain) const {
  if (chain.layout != layout_) {
    chain.layout = layout_;
    const Levels levels = LevelsOf(of);
    for (size_t level = 0; level < levels.size(); ++level) {
      const auto at = levels[level] ? index_.find(*levels[level]) : index_.end();
      chain.at[level] = at == index_.end() ? kNone : at->second;
    }
  }
  double mean = FirstGuess(of);
  for (const uint32_t at : chain.at) {
    if (at != kNone) mean = (sums_[at].seconds + kPriorRuns * mean) / (sums_[at].runs + kPriorRuns);
  }
  return mean;
}

RunEstimate RunHistory::Estimate(const RunClass& of) const {
  RunEstimate estimate;
  double mean = FirstGuess(of);
  double square = 2 * mean * mean;
  for (const std::optional<RunClass>& level : LevelsOf(of)) {
    const auto at = level ? index_.find(*level) : index_.end();
    if (at == index_.end()) continue;
    AddPrior(mean, square, sums_[at->second]);
    estimate.of = *level;
    estimate.runs = sums_[at->second].runs;
  }
  const auto duration = [](double seconds) { return conf::Duration(std::llround(seconds * 1e9)); };
  estimate.expected = duration(mean);
  estimate.spread = duration(std::sqrt(std::max(square - mean * mean, 0.0)));
  return estimate;
}

}  // namespace scheduler
