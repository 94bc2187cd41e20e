#include "bench/scheduling/offline_bound.h"

#include <coin/Clp_C_Interface.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/sim/until_allocated.h"

namespace bench::scheduling {
namespace {

using scheduler::Ask;
using scheduler::Cluster;
using scheduler::DeviceAsk;
using scheduler::kWholeDevice;
using scheduler::NodeType;

constexpr size_t kMostPatterns = 20'000;
constexpr size_t kParts = 10;  // of the arrivals of one reading
constexpr double kUnbounded = 1e30;

struct Class {
  Ask ask;
  double milli = 0;  // of devices, that one takes
};

// Nodes of one type, together.
struct Pool {
  const NodeType* type = nullptr;
  std::string_view kind;
  double nodes = 0;
};

// The asks that take devices, equal ones as one.
class Classes {
 public:
  explicit Classes(std::span<const Ask> asks) {
    std::map<std::tuple<std::vector<std::string>, uint16_t, uint16_t, int64_t, int64_t>, size_t> known;
    for (const Ask& ask : asks) {
      if (ask.devices.empty()) {
        of_.push_back(-1);
        continue;
      }
      const DeviceAsk& device = ask.devices.front();
      const auto [at, fresh] = known.try_emplace(
          std::tuple(device.kinds, device.count, device.milli, ask.cpu_milli, ask.memory_mib), all_.size());
      if (fresh) all_.push_back({ask, static_cast<double>(scheduler::DeviceMilli(device))});
      of_.push_back(static_cast<int64_t>(at->second));
    }
  }

  const std::vector<Class>& all() const { return all_; }
  int64_t of(size_t ask) const { return of_[ask]; }  // -1: takes no device

 private:
  std::vector<Class> all_;
  std::vector<int64_t> of_;
};

bool Fits(const Ask& ask, const Pool& pool) {
  const DeviceAsk& device = ask.devices.front();
  return device.count <= pool.type->devices && pool.type->devices > 0 &&
         ask.cpu_milli <= pool.type->cpu_milli && ask.memory_mib <= pool.type->memory_mib &&
         (device.kinds.empty() || std::ranges::find(device.kinds, pool.kind) != device.kinds.end());
}

// How often each of `shares` (falling) is on one device: the combinations to which nothing can be added.
class Patterns {
 public:
  explicit Patterns(const std::vector<uint16_t>& shares) : shares_(shares), counts_(shares.size()) {
    if (!shares.empty()) Extend(0, kWholeDevice);
  }

  const std::vector<std::vector<uint8_t>>& all() const { return all_; }

 private:
  void Extend(size_t share, int64_t left) {
    if (all_.size() > kMostPatterns) return;
    if (share == shares_.size()) {
      if (left < shares_.back()) all_.push_back(counts_);
      return;
    }
    for (counts_[share] = 0;; ++counts_[share], left -= shares_[share]) {
      Extend(share + 1, left);
      if (left < shares_[share] || counts_[share] == UINT8_MAX) break;
    }
    counts_[share] = 0;
  }

  const std::vector<uint16_t>& shares_;
  std::vector<uint8_t> counts_;
  std::vector<std::vector<uint8_t>> all_;
};

// The program, built once; what has arrived is the right-hand side of its first rows.
class Program {
 public:
  static absl::StatusOr<Program> Build(const std::vector<Class>& classes, const std::vector<Pool>& pools) {
    Program program;
    const auto rows = static_cast<int>(classes.size());
    program.upper_.assign(classes.size(), 0);
    std::vector<uint16_t> shares;
    for (const Class& c : classes) {
      if (const uint16_t milli = c.ask.devices.front().milli; milli > 0) shares.push_back(milli);
    }
    std::ranges::sort(shares, std::greater());
    shares.erase(std::ranges::unique(shares).begin(), shares.end());
    const Patterns patterns(shares);
    if (patterns.all().size() > kMostPatterns) {
      return absl::InvalidArgumentError(fmt::format(
          "{} different shares of a device combine in more than {} ways", shares.size(), kMostPatterns));
    }

    Columns columns;
    for (const Pool& pool : pools) {
      // Of this pool: CPU, memory, devices, and each share on them.
      const auto first = static_cast<int>(program.upper_.size());
      program.upper_.push_back(static_cast<double>(pool.type->cpu_milli) / 1000 * pool.nodes);
      program.upper_.push_back(static_cast<double>(pool.type->memory_mib) / 1024 * pool.nodes);
      program.upper_.push_back(pool.type->devices * pool.nodes);
      program.upper_.resize(program.upper_.size() + shares.size(), 0);
      for (int c = 0; c < rows; ++c) {
        const Class& of = classes[static_cast<size_t>(c)];
        if (!Fits(of.ask, pool)) continue;
        columns.Begin(of.milli / 1000);
        columns.Add(c, 1);
        columns.Add(first, static_cast<double>(of.ask.cpu_milli) / 1000);
        columns.Add(first + 1, static_cast<double>(of.ask.memory_mib) / 1024);
        const DeviceAsk& device = of.ask.devices.front();
        if (device.milli == 0) {
          columns.Add(first + 2, device.count);
        } else {
          const auto share = std::ranges::find(shares, device.milli) - shares.begin();
          columns.Add(first + 3 + static_cast<int>(share), 1);
        }
      }
      for (const std::vector<uint8_t>& pattern : patterns.all()) {
        columns.Begin(0);
        columns.Add(first + 2, 1);
        for (size_t s = 0; s < pattern.size(); ++s) columns.Add(first + 3 + static_cast<int>(s), -pattern[s]);
      }
    }
    program.Load(columns);
    return program;
  }

  // Devices, of so many of each class.
  absl::StatusOr<double> Solve(const std::vector<uint32_t>& arrived) {
    std::ranges::copy(arrived, upper_.begin());
    Clp_chgRowUpper(model_.get(), upper_.data());
    Clp_dual(model_.get(), 0);
    if (Clp_status(model_.get()) != 0) return absl::InternalError("the linear program was not solved");
    return Clp_objectiveValue(model_.get());
  }

 private:
  struct Columns {
    void Begin(double gain) {
      starts.push_back(static_cast<CoinBigIndex>(rows.size()));
      gains.push_back(gain);
    }
    void Add(int row, double factor) {
      if (factor == 0) return;
      rows.push_back(row);
      factors.push_back(factor);
    }

    std::vector<CoinBigIndex> starts;
    std::vector<double> gains;
    std::vector<int> rows;
    std::vector<double> factors;
  };

  Program() : model_(Clp_newModel(), &Clp_deleteModel) { Clp_setLogLevel(model_.get(), 0); }

  void Load(Columns& columns) {
    columns.starts.push_back(static_cast<CoinBigIndex>(columns.rows.size()));
    const std::vector<double> none(upper_.size(), -kUnbounded);
    const std::vector<double> zero(columns.gains.size(), 0);
    Clp_loadProblem(model_.get(), static_cast<int>(columns.gains.size()), static_cast<int>(upper_.size()),
                    columns.starts.data(), columns.rows.data(), columns.factors.data(), zero.data(), nullptr,
                    columns.gains.data(), none.data(), upper_.data());
    Clp_setOptimizationDirection(model_.get(), -1);
  }

  std::unique_ptr<Clp_Simplex, void (*)(Clp_Simplex*)> model_;
  std::vector<double> upper_;  // of the rows: the classes' come first
};

std::vector<Pool> PoolsOf(const Cluster& cluster) {
  std::vector<Pool> pools;
  pools.reserve(cluster.types.size());
  for (const NodeType& type : cluster.types) pools.push_back({&type, cluster.kinds[type.kind].name, 0});
  for (const scheduler::Node& node : cluster.nodes) ++pools[node.type].nodes;
  return pools;
}

// The mean over the arrivals at which the load rounds to `percent`.
absl::StatusOr<double> BoundAt(int percent, const std::vector<uint32_t>& order, const Classes& classes,
                               double capacity, Program& program) {
  std::vector<uint32_t> arrived(classes.all().size());
  std::vector<std::vector<uint32_t>> within;  // what had arrived by each arrival of the reading
  double milli = 0;
  for (const uint32_t ask : order) {
    if (const int64_t c = classes.of(ask); c >= 0) {
      ++arrived[static_cast<size_t>(c)];
      milli += classes.all()[static_cast<size_t>(c)].milli;
    }
    const auto load = static_cast<int>(std::nearbyint(100 * milli / capacity));
    if (load > percent) break;
    if (load == percent) within.push_back(arrived);
  }
  if (within.empty()) within.push_back(arrived);  // the load ends before it: the last reading
  double sum = 0;
  size_t done = 0;
  for (size_t part = 1; part <= kParts; ++part) {
    const size_t end = within.size() * part / kParts;
    if (end == done) continue;
    const absl::StatusOr<double> devices = program.Solve(within[end - 1]);
    if (!devices.ok()) return devices.status();
    sum += static_cast<double>(end - done) * *devices;
    done = end;
  }
  return 100 * sum / static_cast<double>(within.size()) * kWholeDevice / capacity;
}

}  // namespace

absl::StatusOr<Reading> OfflineBoundOf(const Cluster& cluster, std::span<const Ask> asks, uint64_t first_seed,
                                       uint32_t seeds) {
  const Classes classes(asks);
  const std::vector<Pool> pools = PoolsOf(cluster);
  double capacity = 0;
  for (const Pool& pool : pools) capacity += pool.nodes * pool.type->devices * kWholeDevice;
  absl::StatusOr<Program> program = Program::Build(classes.all(), pools);
  if (!program.ok()) return program.status();
  Reading mean;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    const std::vector<uint32_t> order =
        scheduler::sim::ArrivalOrder(cluster, asks, {.seed = first_seed + seed});
    for (const auto& [percent, reading] : {std::pair(100, &mean.at_100), std::pair(130, &mean.at_130)}) {
      const absl::StatusOr<double> bound = BoundAt(percent, order, classes, capacity, *program);
      if (!bound.ok()) return bound.status();
      *reading += *bound / seeds;
    }
  }
  return mean;
}

}  // namespace bench::scheduling
