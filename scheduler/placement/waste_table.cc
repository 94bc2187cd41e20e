#include "scheduler/placement/waste_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace scheduler {
namespace {

constexpr double kEnd = 0.01;      // ε
constexpr double kNoise = 0.1;     // of σ
constexpr double kFar = 6;         // deviations beyond which the normal's tail is nothing
constexpr size_t kMostRows = 128;  // more CPU thresholds are thinned out
constexpr size_t kDeviceCounts = kMaxDevices + 1;

std::vector<int64_t> Thresholds(const DemandMix& mix, const std::vector<size_t>& typical) {
  std::vector<int64_t> cpus;
  cpus.reserve(typical.size());
  for (const size_t at : typical) cpus.push_back(mix.items[at].shape.cpu_milli);
  std::ranges::sort(cpus);
  const auto rest = std::ranges::unique(cpus);
  cpus.erase(rest.begin(), rest.end());
  if (cpus.size() <= kMostRows) return cpus;
  std::vector<int64_t> thinned;
  thinned.reserve(kMostRows);
  for (size_t row = 1; row <= kMostRows; ++row) thinned.push_back(cpus[row * cpus.size() / kMostRows - 1]);
  return thinned;
}

}  // namespace

WasteTable::WasteTable(const Cluster& cluster, const DemandMix& mix) {
  std::vector<size_t> typical = TypicalItems(mix);
  std::erase_if(typical, [&](size_t at) { return !mix.items[at].shape.needs_device(); });
  cpus_ = Thresholds(mix, typical);
  Fill(cluster, mix, typical);
  SetCpuDemand(cluster, mix);
  SetPrices(cluster, mix);
}

void WasteTable::Fill(const Cluster& cluster, const DemandMix& mix, const std::vector<size_t>& typical) {
  constexpr size_t kLevels = kWholeDevice / kStep + 1;
  const auto kinds = static_cast<KindId>(cluster.kinds.size());
  const size_t rows = cpus_.size() + 1;
  part_.assign(kinds * rows * kLevels, 0);
  whole_.assign(kinds * rows * kDeviceCounts, 0);
  double all = 0;
  for (const size_t at : typical) all += mix.items[at].share;

  for (KindId kind = 0; kind < kinds; ++kind) {
    for (size_t row = 0; row < rows; ++row) {
      std::array<double, kLevels> shares{};        // rates, by size in steps
      std::array<double, kDeviceCounts> wholes{};  // by number of devices
      for (const size_t at : typical) {
        const Shape& shape = mix.items[at].shape;
        if ((shape.kinds >> kind & 1) == 0 || row == 0 || shape.cpu_milli > cpus_[row - 1]) continue;
        const double rate = mix.items[at].share / all;
        if (const uint16_t milli = ShareMilli(shape, cluster, kind); milli > 0) {
          shares[(milli + kStep - 1u) / kStep] += rate;
        } else if (shape.count > 0 && shape.count < kDeviceCounts) {
          wholes[shape.count] += rate;
        }
      }
      float* const part = &part_[(kind * rows + row) * kLevels];
      const auto waste = [&](size_t left, double taken_whole) {
        double rate = kEnd + taken_whole;
        double expected = kEnd * static_cast<double>(left * kStep);
        for (size_t size = 1; size <= left; ++size) {
          if (shares[size] == 0) continue;
          rate += shares[size];
          expected += shares[size] * double{part[left - size]};
        }
        return static_cast<float>(expected / rate);
      };
      for (size_t left = 0; left < kLevels; ++left) part[left] = waste(left, 0);
      float* const whole = &whole_[(kind * rows + row) * kDeviceCounts];
      double taken = 0;
      for (size_t count = 1; count < kDeviceCounts; ++count) {
        taken += wholes[count];
        whole[count] = waste(kLevels - 1, taken);
      }
    }
  }
}

void WasteTable::SetCpuDemand(const Cluster& cluster, const DemandMix& mix) {
  double cpu = 0;
  double milli = 0;
  for (const DemandMix::Item& item : mix.items) {
    if (!item.shape.needs_device()) continue;
    cpu += item.share * static_cast<double>(item.shape.cpu_milli);
    milli += item.share * static_cast<double>(DemandMilli(item.shape, cluster));
  }
  if (milli <= 0) return;
  cpu_per_milli_ = cpu / milli;
  double variance = 0;
  for (const DemandMix::Item& item : mix.items) {
    if (!item.shape.needs_device()) continue;
    const double off = static_cast<double>(item.shape.cpu_milli) -
                       cpu_per_milli_ * static_cast<double>(DemandMilli(item.shape, cluster));
    variance += item.share * off * off;
  }
  deviation_ = kNoise * std::sqrt(variance / milli);
}

void WasteTable::SetPrices(const Cluster& cluster, const DemandMix& mix) {
  std::vector<double> capacity(cluster.kinds.size(), 0);
  uint64_t present = 0;
  double all = 0;
  for (const Node& node : cluster.nodes) {
    const NodeType& type = cluster.types[node.type];
    if (type.devices == 0) continue;
    capacity[type.kind] += type.devices;
    all += type.devices;
    present |= uint64_t{1} << type.kind;
  }
  price_.assign(cluster.kinds.size(), 0);
  double wanted = 0;
  for (const DemandMix::Item& item : mix.items) {
    wanted += item.share * static_cast<double>(DemandMilli(item.shape, cluster));
  }
  if (wanted <= 0) return;
  for (const DemandMix::Item& item : mix.items) {
    const uint64_t tied = item.shape.kinds & present;
    if (tied == 0 || tied == present) continue;
    double of_those = 0;
    for (size_t k = 0; k < capacity.size(); ++k) of_those += (tied >> k & 1) != 0 ? capacity[k] : 0;
    const double part = item.share * static_cast<double>(DemandMilli(item.shape, cluster)) / wanted;
    for (size_t k = 0; k < capacity.size(); ++k) {
      if ((tied >> k & 1) != 0) price_[k] += part * all / of_those;
    }
  }
  for (double& price : price_) price = std::min(price, 1.0);
}

WasteTable::OnNode WasteTable::On(KindId kind, int64_t cpu_milli) const {
  const auto row = static_cast<size_t>(std::ranges::upper_bound(cpus_, cpu_milli) - cpus_.begin());
  const size_t at = kind * (cpus_.size() + 1) + row;
  OnNode on;
  on.part_ = &part_[at * (kWholeDevice / kStep + 1)];
  on.whole_ = &whole_[at * kDeviceCounts];
  return on;
}

double WasteTable::Starved(int64_t cpu_milli, int idle_milli) const {
  if (idle_milli <= 0 || cpu_per_milli_ <= 0) return 0;
  const double lack = cpu_per_milli_ * idle_milli - static_cast<double>(cpu_milli);
  const double deviation = deviation_ * std::sqrt(static_cast<double>(idle_milli));
  if (lack >= kFar * deviation) return lack / cpu_per_milli_;
  if (lack <= -kFar * deviation) return 0;
  const double z = lack / deviation;
  const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  const double density = std::exp(-z * z / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return (lack * below + deviation * density) / cpu_per_milli_;
}

double WasteTable::OnNode::Devices(const Lefts& lefts) const {
  double sum = Whole(lefts.whole);
  for (size_t d = 0; d < lefts.devices; ++d) {
    if (lefts.of[d] < kWholeDevice) sum += Part(lefts.of[d]);
  }
  return sum;
}

double WasteTable::OnNode::DevicesAfter(double sum, const Lefts& lefts, uint16_t left, int milli) const {
  const double before = left < kWholeDevice ? Part(left) : Whole(lefts.whole) - Whole(lefts.whole - 1);
  return sum - before + Part(left - milli);
}

}  // namespace scheduler
