#include "gateway/control/scaling/recent_traffic.h"

#include <algorithm>
#include <numeric>

#include "gateway/net/clock.h"

namespace gateway {
namespace {

using Buckets = std::array<uint64_t, DurationCells::kBounds.size() + 1>;

void Add(Buckets& to, const DurationCells& cells) {
  for (size_t b = 0; b < to.size(); ++b) to[b] += cells.buckets[b].value();
}

std::optional<RecentTraffic::Quantiles> Since(const Buckets& now, const Buckets& before) {
  Buckets added{};
  for (size_t b = 0; b < added.size(); ++b) added[b] = now[b] - before[b];
  const auto at = [&](double q) { return QuantileOf(DurationCells::kBounds, added, q); };
  if (!at(0.5)) return std::nullopt;
  return RecentTraffic::Quantiles{.p50 = *at(0.5), .p90 = *at(0.9), .p99 = *at(0.99)};
}

}  // namespace

std::optional<double> QuantileOf(std::span<const double> bounds, std::span<const uint64_t> counts, double q) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  if (total <= 0) return std::nullopt;
  const double rank = std::clamp(q, 0.0, 1.0) * total;
  double below = 0;
  for (size_t b = 0; b < bounds.size(); ++b) {
    const auto here = static_cast<double>(counts[b]);
    if (here > 0 && below + here >= rank) {
      const double low = b == 0 ? 0 : bounds[b - 1];
      return low + (bounds[b] - low) * std::max(rank - below, 0.0) / here;
    }
    below += here;
  }
  return bounds.back();
}

void RecentTraffic::Begin(conf::TimePoint now) {
  Step(now);
  SetAfter(kStep);
}

void RecentTraffic::OnAlarm() {
  Step(net::Now());
  SetAfter(kStep);
}

void RecentTraffic::Step(conf::TimePoint now) {
  known_.push_back({now, AddUp()});
  if (known_.size() > kSteps) known_.pop_front();
}

std::map<std::string, RecentTraffic::Sums> RecentTraffic::AddUp() const {
  std::map<std::string, Sums> sums;
  for (const ShardMetrics* shard : shards_()) {
    shard->ForEachModel([&](const std::string& name, const ModelCells& cells) {
      Sums& sum = sums[name];
      for (size_t reason = 0; reason < ledger::kEndReasons; ++reason) {
        sum.requests += cells.requests[reason].value();
        if (ledger::IsError(static_cast<ledger::EndReason>(reason)))
          sum.errors += cells.requests[reason].value();
      }
      sum.output_tokens += cells.output_flow.value();
      Add(sum.first_token, cells.time_to_first_token);
      Add(sum.inter_token, cells.time_per_output_token);
      for (const auto& [band, of_class] : cells.classes) {
        ClassSums& of = sum.classes[band];
        of.requests += of_class->came.value();
        of.prompt_tokens += of_class->came_tokens.value();
        of.refused += of_class->refused.value();
        Add(of.first_token, of_class->time_to_first_token);
        Add(of.inter_token, of_class->time_per_output_token);
      }
    });
  }
  return sums;
}

std::vector<RecentTraffic::ClassRow> RecentTraffic::ClassRows(const Sums& now, const Sums& before) {
  static const ClassSums kNothing;
  std::vector<ClassRow> rows;
  rows.reserve(now.classes.size());
  for (const auto& [name, sum] : now.classes) {
    const auto found = before.classes.find(name);
    const ClassSums& was = found == before.classes.end() ? kNothing : found->second;
    rows.push_back({.name = name,
                    .requests = sum.requests - was.requests,
                    .prompt_tokens = sum.prompt_tokens - was.prompt_tokens,
                    .refused = sum.refused - was.refused,
                    .first_token = Since(sum.first_token, was.first_token),
                    .inter_token = Since(sum.inter_token, was.inter_token)});
  }
  return rows;
}

std::vector<RecentTraffic::Row> RecentTraffic::Rows(conf::TimePoint now) const {
  static const Sums kNothing;
  std::vector<Row> rows;
  const std::map<std::string, Sums> sums = AddUp();
  rows.reserve(sums.size());
  for (const auto& [model, sum] : sums) {
    const Sums* before = &kNothing;
    Row& row = rows.emplace_back();
    row.model = model;
    if (!known_.empty()) {
      row.seconds = std::max(conf::ToSeconds(now - known_.front().at), 1.0);
      if (const auto at = known_.front().models.find(model); at != known_.front().models.end())
        before = &at->second;
    }
    row.requests = sum.requests - before->requests;
    row.errors = sum.errors - before->errors;
    row.output_tokens = sum.output_tokens - before->output_tokens;
    row.first_token = Since(sum.first_token, before->first_token);
    row.inter_token = Since(sum.inter_token, before->inter_token);
    row.classes = ClassRows(sum, *before);
  }
  return rows;
}

}  // namespace gateway
