#include "scheduler/sim/collector.h"

#include <algorithm>
#include <limits>

namespace scheduler::sim {
namespace {

constexpr size_t kHeatRows = 128;
constexpr size_t kHeatColumns = 512;  // when reached, neighbours are merged
constexpr size_t kCdfSteps = 200;
constexpr int64_t kNoQuota = std::numeric_limits<int64_t>::max();

double Hours(conf::Duration d) {
  return static_cast<double>(d.count()) / 3.6e12;
}

double Devices(int64_t milli) {
  return static_cast<double>(milli) / kWholeDevice;
}

int64_t DeservedMilli(const Queue& queue) {
  if (queue.deserved.empty()) return kNoQuota;
  if (const auto all = queue.deserved.find("*"); all != queue.deserved.end()) return all->second;
  int64_t sum = 0;
  for (const auto& [kind, milli] : queue.deserved) sum += milli;
  return sum;
}

}  // namespace

Collector::Collector(const Cluster& cluster, std::span<const Queue> queues, const DemandMix& mix,
                     conf::TimePoint start, conf::Duration step)
    : cluster_(&cluster), mix_(&mix), start_(start), now_(start), step_(step), next_sample_(start + step) {
  for (NodeId node = 0; node < cluster.nodes.size(); ++node) capacity_ += cluster.type_of(node).devices;
  for (const Queue& queue : queues) {
    OfQueue& of = queues_.emplace_back();
    of.deserved = DeservedMilli(queue);
    of.since = start;
  }
  heat_.nodes_per_row = std::max<size_t>(1, (cluster.nodes.size() + kHeatRows - 1) / kHeatRows);
  heat_.rows = (cluster.nodes.size() + heat_.nodes_per_row - 1) / heat_.nodes_per_row;
  column_.assign(heat_.rows, 0);
}

void Collector::Advance(conf::TimePoint now, const ClusterState& state) {
  while (next_sample_ <= now) {
    Integrate(next_sample_, state);
    TakeSample(state);
    next_sample_ += step_;
  }
  Integrate(now, state);
}

void Collector::Integrate(conf::TimePoint until, const ClusterState& state) {
  if (until == now_) return;
  const double hours = Hours(until - now_);
  step_held_h_ += Devices(held_milli_) * hours;
  energy_kwh_ += static_cast<double>(state.totals().milliwatts) * 1e-6 * hours;
  if (waiting_ == 0) waited_all_step_ = false;
  now_ = until;
}

void Collector::TakeSample(const ClusterState& state) {
  const double step_hours = Hours(step_);
  samples_.push_back({.hour = Hours(now_ - start_),
                      .gar = AllocationRate(state.totals()),
                      .sor = OccupationRate(step_held_h_, capacity_ * step_hours),
                      .gfr = FragmentationRate(state.totals()),
                      .fragmentation = FragmentedShare(state, *mix_),
                      .running = running_,
                      .waiting = waiting_,
                      .waiting_devices = Devices(waiting_milli_),
                      .kilowatts = static_cast<double>(state.totals().milliwatts) * 1e-6,
                      .saturated = waited_all_step_});
  held_h_ += step_held_h_;
  step_held_h_ = 0;
  waited_all_step_ = true;
  for (OfQueue& queue : queues_) queue.samples.push_back(static_cast<float>(Devices(queue.held)));
  PaintColumn(state);
}

void Collector::PaintColumn(const ClusterState& state) {
  for (size_t row = 0; row < heat_.rows; ++row) {
    const size_t end = std::min((row + 1) * heat_.nodes_per_row, cluster_->nodes.size());
    int64_t capacity = 0;
    int64_t free = 0;
    for (size_t n = row * heat_.nodes_per_row; n < end; ++n) {
      const auto node = static_cast<NodeId>(n);
      capacity += int64_t{cluster_->type_of(node).devices} * kWholeDevice;
      free += FreeMilli(state.node(node), state.view_of(node));
    }
    if (capacity > 0) column_[row] += static_cast<float>(capacity - free) / static_cast<float>(capacity);
  }
  if (++samples_in_column_ < samples_per_column_) return;
  for (float& cell : column_) {
    heat_.cells.push_back(cell / static_cast<float>(samples_per_column_));
    cell = 0;
  }
  samples_in_column_ = 0;
  const size_t columns = heat_.rows == 0 ? 0 : heat_.cells.size() / heat_.rows;
  if (columns < kHeatColumns) return;
  for (size_t c = 0; c < columns / 2; ++c) {
    for (size_t row = 0; row < heat_.rows; ++row) {
      const size_t from = 2 * c * heat_.rows + row;
      heat_.cells[c * heat_.rows + row] = (heat_.cells[from] + heat_.cells[from + heat_.rows]) / 2;
    }
  }
  heat_.cells.resize(columns / 2 * heat_.rows);
  samples_per_column_ *= 2;
}

void Collector::Settle(OfQueue& queue) const {
  const double hours = Hours(now_ - queue.since);
  queue.since = now_;
  const int64_t entitled = std::min(queue.deserved, queue.held + queue.waiting);
  queue.held_h += Devices(queue.held) * hours;
  queue.entitled_h += Devices(entitled) * hours;
  queue.granted_h += Devices(std::min(queue.held, entitled)) * hours;
}

void Collector::Waits(uint32_t queue, int64_t device_milli, int sign) {
  Settle(queues_[queue]);
  queues_[queue].waiting += sign * device_milli;
  waiting_milli_ += sign * device_milli;
  waiting_ = static_cast<uint32_t>(static_cast<int>(waiting_) + sign);
}

void Collector::Holds(uint32_t queue, int64_t change_milli) {
  Settle(queues_[queue]);
  queues_[queue].held += change_milli;
  held_milli_ += change_milli;
}

void Collector::FirstStart(conf::Duration waited, int64_t device_milli) {
  waits_[SizeClass(device_milli)].push_back(Hours(waited));
  if (SizeClass(device_milli) > 0) waits_of_large_.push_back(Hours(waited));
}

void Collector::Placed(const Jtted& jtted, int64_t device_milli) {
  gangs_.push_back({.hour = Hours(now_ - start_), .devices = Devices(device_milli), .jtted = jtted.ratio});
  node_deviation_ += static_cast<double>(jtted.nodes) / std::max(jtted.ideal_nodes, 1u);
  leaf_deviation_ += static_cast<double>(jtted.leaves) / std::max(jtted.ideal_leaves, 1u);
}

void Collector::Finished(conf::Duration turnaround, conf::Duration run) {
  turnarounds_.push_back(Hours(turnaround));
  slowdowns_.push_back(BoundedSlowdown(conf::ToSeconds(turnaround), conf::ToSeconds(run)));
}

WaitsOfClass Collector::Summarise(std::vector<double>& waits) const {
  std::ranges::sort(waits);
  WaitsOfClass of{.jobs = static_cast<uint32_t>(waits.size()),
                  .mean_h = Mean(waits),
                  .p50_h = Quantile(waits, 0.5),
                  .p90_h = Quantile(waits, 0.9),
                  .p99_h = Quantile(waits, 0.99),
                  .max_h = Quantile(waits, 1)};
  if (waits.empty()) return of;
  for (size_t i = 0; i <= kCdfSteps; ++i) {
    of.cdf_h.push_back(Quantile(waits, static_cast<double>(i) / kCdfSteps));
  }
  return of;
}

namespace {

// The median of the samples at saturation; of all samples where none is.
double Median(const std::vector<Sample>& samples, bool only_saturated, double Sample::* field) {
  std::vector<double> values;
  for (const Sample& sample : samples) {
    if (sample.saturated || !only_saturated) values.push_back(sample.*field);
  }
  std::ranges::sort(values);
  return Quantile(values, 0.5);
}

}  // namespace

Report Collector::Finish() {
  Report report;
  report.hours = Hours(now_ - start_);
  const bool saturated = std::ranges::any_of(samples_, &Sample::saturated);
  report.gar = Median(samples_, saturated, &Sample::gar);
  report.sor = Median(samples_, saturated, &Sample::sor);
  report.gfr = Median(samples_, saturated, &Sample::gfr);
  report.fragmentation = Median(samples_, saturated, &Sample::fragmentation);
  report.saturated_hours =
      static_cast<double>(std::ranges::count_if(samples_, &Sample::saturated)) * Hours(step_);
  for (const Sample& sample : samples_) report.gar_mean += sample.gar / static_cast<double>(samples_.size());
  report.sor_mean = OccupationRate(held_h_ + step_held_h_, capacity_ * report.hours);

  std::vector<double> all;
  for (size_t size = 0; size < kSizeClasses; ++size) {
    all.insert(all.end(), waits_[size].begin(), waits_[size].end());
    report.waits_by_size[size] = Summarise(waits_[size]);
  }
  report.waits = Summarise(all);
  report.waits_of_large = Summarise(waits_of_large_);
  report.started = report.waits.jobs;

  std::ranges::sort(turnarounds_);
  std::ranges::sort(slowdowns_);
  std::vector<double> jtted;
  jtted.reserve(gangs_.size());
  for (const GangPlaced& gang : gangs_) jtted.push_back(gang.jtted);
  std::ranges::sort(jtted);
  report.jct_mean_h = Mean(turnarounds_);
  report.jct_p50_h = Quantile(turnarounds_, 0.5);
  report.jct_p99_h = Quantile(turnarounds_, 0.99);
  report.slowdown_mean = Mean(slowdowns_);
  report.slowdown_p50 = Quantile(slowdowns_, 0.5);
  report.jtted_mean = Mean(jtted);
  report.jtted_p50 = Quantile(jtted, 0.5);
  report.jtted_p99 = Quantile(jtted, 0.99);
  if (!gangs_.empty()) {
    report.node_deviation = node_deviation_ / static_cast<double>(gangs_.size());
    report.leaf_deviation = leaf_deviation_ / static_cast<double>(gangs_.size());
  }
  report.gangs = std::move(gangs_);

  const auto spent = [this](Spent what) { return spent_[static_cast<size_t>(what)]; };
  report.useful_h = spent(Spent::kUseful);
  report.lost_h = spent(Spent::kLost);
  report.restarted_h = spent(Spent::kRestarted);
  report.saved_h = spent(Spent::kSaved);
  report.idle_h = spent(Spent::kIdle);
  report.open_h = spent(Spent::kOpen);
  const double over = report.useful_h + report.lost_h + report.restarted_h + report.saved_h + report.idle_h;
  report.goodput = over > 0 ? report.useful_h / over : 1;
  report.energy_kwh = energy_kwh_;

  std::vector<double> satisfaction;
  for (OfQueue& queue : queues_) {
    Settle(queue);
    QueueUse use{.name = {}, .device_hours = queue.held_h, .satisfaction = 1, .devices = {}};
    if (queue.entitled_h > 0) {
      use.satisfaction = queue.granted_h / queue.entitled_h;
      satisfaction.push_back(use.satisfaction);
    }
    use.devices = std::move(queue.samples);
    report.queues.push_back(std::move(use));
  }
  report.jain = JainIndex(satisfaction);
  report.samples = std::move(samples_);
  if (samples_in_column_ > 0) {
    for (const float cell : column_) heat_.cells.push_back(cell / static_cast<float>(samples_in_column_));
  }
  heat_.hours_per_column = Hours(step_) * samples_per_column_;
  report.heat = std::move(heat_);
  return report;
}

}  // namespace scheduler::sim
