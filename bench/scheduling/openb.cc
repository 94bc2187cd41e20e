// openb: how full a policy gets the cluster, beside the figures that FGD's authors published.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "bench/scheduling/offline_bound.h"
#include "bench/scheduling/openb_data.h"
#include "bench/scheduling/progress.h"
#include "bench/scheduling/section.h"
#include "scheduler/sim/until_allocated.h"

namespace bench::scheduling {
namespace {

using scheduler::sim::MixFrom;

struct Candidate {
  std::string_view title;
  std::string_view placement;
  MixFrom mix;
  std::string_view published;  // the source of the published figures
  bool same = false;           // it is the same policy, not the best of them to compare with
};

constexpr std::array<Candidate, 8> kCandidates = {{
    {"random", "random", MixFrom::kList, "Random", true},
    {"dot-product", "dot-product", MixFrom::kList, "DotProd", true},
    {"gpu-clustering", "gpu-clustering", MixFrom::kList, "GpuClustering", true},
    {"gpu-packing", "gpu-packing", MixFrom::kList, "GpuPacking", true},
    {"best-fit", "best-fit", MixFrom::kList, "BestFit", true},
    {"fgd", "fgd", MixFrom::kList, "FGD", true},
    {"default", "default", MixFrom::kArrivals, "FGD"},
    {"default, mix known", "default", MixFrom::kList, "FGD"},
}};
constexpr uint64_t kFirstSeed = 42;

struct Spread {
  double mean = 0;
  double median = 0;
  double deviation = 0;
};

Spread SpreadOf(std::vector<double> values) {
  Spread spread;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  spread.median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  for (const double value : values) spread.deviation += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(spread.deviation / static_cast<double>(values.size()));
  return spread;
}

// The upper bound of any placement, even one that knows all arrivals, by list.
absl::StatusOr<std::vector<Reading>> Bounds(const Openb& openb, const Options& options, uint32_t seeds) {
  std::vector<absl::StatusOr<Reading>> of(openb.lists.size(), Reading{});
  Progress progress("openb, bounds", openb.lists.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t list = next++; list < openb.lists.size(); list = next++) {
      of[list] = OfflineBoundOf(openb.cluster, openb.lists[list].asks, kFirstSeed, seeds);
      progress.Step();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < options.threads; ++t) threads.emplace_back(work);
    work();
  }
  std::vector<Reading> bounds;
  bounds.reserve(of.size());
  for (const absl::StatusOr<Reading>& bound : of) {
    if (!bound.ok()) return bound.status();
    bounds.push_back(*bound);
  }
  return bounds;
}

// [candidate][list][seed]
using Readings = std::vector<std::vector<std::vector<Reading>>>;

Readings Measure(const Openb& openb, const Options& options, uint32_t seeds) {
  Readings readings(kCandidates.size(), std::vector(openb.lists.size(), std::vector<Reading>(seeds)));
  const size_t units = kCandidates.size() * openb.lists.size() * seeds;
  Progress progress("openb", units);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t unit = next++; unit < units; unit = next++) {
      const size_t candidate = unit / (openb.lists.size() * seeds);
      const size_t list = unit / seeds % openb.lists.size();
      const size_t seed = unit % seeds;
      const scheduler::sim::UntilAllocated run =
          scheduler::sim::FillUntilAllocated(openb.cluster, openb.lists[list].asks,
                                             {.placement = std::string(kCandidates[candidate].placement),
                                              .mix = kCandidates[candidate].mix,
                                              .seed = kFirstSeed + seed});
      readings[candidate][list][seed] = {run.At(100), run.At(130)};
      progress.Step();
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < options.threads; ++t) threads.emplace_back(work);
  work();
  return readings;
}

class Table {
 public:
  explicit Table(const Candidate& candidate) : candidate_(candidate) {
    fmt::print("\n{}, beside published {}\n  {:<12} {:>7} {:>9} {:>6}   {:>7} {:>9} {:>6}   {:>5}{}\n",
               candidate.title, candidate.published, "list", "100 %", "published", "diff", "130 %",
               "published", "diff", "sd", candidate.same ? "" : "   bounds");
  }

  // Without `published`, the list has no published figures.
  void Row(const std::string& list, const std::vector<Reading>& seeds, const Reading* published,
           const Reading& bound, nlohmann::json& out) {
    std::vector<double> at_100;
    std::vector<double> at_130;
    for (const Reading& reading : seeds) {
      at_100.push_back(reading.at_100);
      at_130.push_back(reading.at_130);
    }
    const Spread a = SpreadOf(at_100);
    const Spread b = SpreadOf(at_130);
    fmt::print("  {:<12} {:>7.2f} {}   {:>7.2f} {}   {:>5.2f}", list, a.mean,
               Beside(a.mean, published, &Reading::at_100), b.mean,
               Beside(b.mean, published, &Reading::at_130), b.deviation);
    fmt::print("{}\n", candidate_.same ? std::string()
                                       : fmt::format("   {:.2f}, {:.2f}", bound.at_100, bound.at_130));
    nlohmann::json& row = out["lists"][list];
    row["at_100"] = {
        {"mean", a.mean}, {"median", a.median}, {"sd", a.deviation}, {"offline_bound", bound.at_100}};
    row["at_130"] = {
        {"mean", b.mean}, {"median", b.median}, {"sd", b.deviation}, {"offline_bound", bound.at_130}};
    Add(sum_, {a.mean, b.mean});
    Add(bound_, bound);
    ++lists_;
    if (published == nullptr) return;
    const Reading diff{a.mean - published->at_100, b.mean - published->at_130};
    row["at_100"].update({{"published", published->at_100}, {"difference", diff.at_100}});
    row["at_130"].update({{"published", published->at_130}, {"difference", diff.at_130}});
    Add(published_, *published);
    Add(compared_, {a.mean, b.mean});
    ++published_lists_;
    for (const double one : {diff.at_100, diff.at_130}) {
      off_ += std::abs(one) > 0.5;
      if (one < worst_) {
        worst_ = one;
        worst_list_ = list;
      }
    }
  }

  void Finish(nlohmann::json& out) const {
    const Reading mean{sum_.at_100 / lists_, sum_.at_130 / lists_};
    out["mean"] = {{"at_100", mean.at_100},
                   {"at_130", mean.at_130},
                   {"offline_bound_at_100", bound_.at_100 / lists_},
                   {"offline_bound_at_130", bound_.at_130 / lists_}};
    const std::string bounds =
        candidate_.same ? ""
                        : fmt::format("   {:.2f}, {:.2f}", bound_.at_100 / lists_, bound_.at_130 / lists_);
    if (published_lists_ == 0) {
      fmt::print("  {:<12} {:>7.2f} {}   {:>7.2f} {}        {}\n", "mean", mean.at_100,
                 Beside(0, nullptr, &Reading::at_100), mean.at_130, Beside(0, nullptr, &Reading::at_130),
                 bounds);
      return;
    }
    // Means over the lists that have published figures.
    const int of = published_lists_;
    const Reading compared{compared_.at_100 / of, compared_.at_130 / of};
    const Reading published{published_.at_100 / of, published_.at_130 / of};
    fmt::print("  {:<12} {:>7.2f} {}   {:>7.2f} {}   worst {:+.2f} ({}){}\n",
               of == lists_ ? "mean" : fmt::format("mean of {}", of), compared.at_100,
               Beside(compared.at_100, &published, &Reading::at_100), compared.at_130,
               Beside(compared.at_130, &published, &Reading::at_130), worst_, worst_list_,
               candidate_.same ? fmt::format(", {} of {} cells off by more than 0.5", off_, 2 * of) : bounds);
    out["mean"]["difference_at_100"] = compared.at_100 - published.at_100;
    out["mean"]["difference_at_130"] = compared.at_130 - published.at_130;
    out["worst"] = {{"list", worst_list_}, {"difference", worst_}};
    out["published_policy"] = candidate_.published;
    if (candidate_.same) out["cells_off_by_more_than_half"] = off_;
  }

 private:
  static void Add(Reading& sum, const Reading& one) {
    sum.at_100 += one.at_100;
    sum.at_130 += one.at_130;
  }

  // The published figure and the difference to it, or dashes.
  static std::string Beside(double ours, const Reading* published, double Reading::* at) {
    if (published == nullptr) return fmt::format("{:>9} {:>6}", "-", "-");
    return fmt::format("{:>9.2f} {:>+6.2f}", published->*at, ours - published->*at);
  }

  const Candidate& candidate_;
  Reading sum_;
  Reading published_;
  Reading compared_;
  Reading bound_;
  double worst_ = std::numeric_limits<double>::infinity();
  std::string worst_list_;
  int off_ = 0;
  int lists_ = 0;
  int published_lists_ = 0;
};

}  // namespace

absl::Status RunOpenb(const Options& options, nlohmann::json& out) {
  const absl::StatusOr<Openb> openb =
      LoadOpenb(options.openb.empty() ? options.traces + "/openb" : options.openb);
  if (!openb.ok()) return openb.status();
  const uint32_t seeds = options.quick ? 1 : options.seeds;
  out["seeds"] = seeds;
  out["first_seed"] = kFirstSeed;
  const absl::StatusOr<std::vector<Reading>> bounds = Bounds(*openb, options, seeds);
  if (!bounds.ok()) return bounds.status();
  const Readings readings = Measure(*openb, options, seeds);
  fmt::print("openb: allocated GPUs in percent when 100 and 130 % were asked for; means of {} seeds\n",
             seeds);
  for (size_t c = 0; c < kCandidates.size(); ++c) {
    nlohmann::json& of = out["policies"][std::string(kCandidates[c].title)];
    Table table(kCandidates[c]);
    for (size_t l = 0; l < openb->lists.size(); ++l) {
      const std::string& list = openb->lists[l].name;
      const auto published = openb->published.find({list, std::string(kCandidates[c].published)});
      table.Row(list, readings[c][l], published == openb->published.end() ? nullptr : &published->second,
                (*bounds)[l], of);
    }
    table.Finish(of);
  }
  return absl::OkStatus();
}

}  // namespace bench::scheduling
