#include "gateway/metrics/metric_families.h"

#include <algorithm>

namespace gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

}  // namespace

std::string_view LabelValues::Bounded(std::string_view value, size_t max) {
  if (known_.contains(value)) return value;
  if (known_.size() >= max) return "other";
  known_.emplace(value);
  return value;
}

MetricFamilies& MetricFamilies::Counter(std::string_view name, std::string_view help) {
  return Select(name, help, MetricType::Counter);
}
MetricFamilies& MetricFamilies::Gauge(std::string_view name, std::string_view help) {
  return Select(name, help, MetricType::Gauge);
}
MetricFamilies& MetricFamilies::Histogram(std::string_view name, std::string_view help) {
  return Select(name, help, MetricType::Histogram);
}
MetricFamilies& MetricFamilies::Summary(std::string_view name, std::string_view help) {
  return Select(name, help, MetricType::Summary);
}

MetricFamilies& MetricFamilies::Select(std::string_view name, std::string_view help, MetricType type) {
  const auto found = std::find_if(families_.begin(), families_.end(),
                                  [&](const MetricFamily& family) { return family.name == name; });
  selected_ = static_cast<size_t>(found - families_.begin());
  if (found == families_.end()) families_.push_back({std::string(name), std::string(help), type, {}});
  return *this;
}

ClientMetric& MetricFamilies::Sample(Labels labels) {
  std::vector<ClientMetric>& samples = families_[selected_].metric;
  const auto same = [&](const ClientMetric& sample) {
    return std::equal(
        labels.begin(), labels.end(), sample.label.begin(), sample.label.end(),
        [](const auto& a, const ClientMetric::Label& b) { return a.first == b.name && a.second == b.value; });
  };
  if (const auto found = std::find_if(samples.begin(), samples.end(), same); found != samples.end())
    return *found;
  ClientMetric& sample = samples.emplace_back();
  for (const auto& [name, value] : labels) sample.label.push_back({std::string(name), std::string(value)});
  return sample;
}

MetricFamilies& MetricFamilies::Add(double value, Labels labels) {
  ClientMetric& sample = Sample(labels);
  (families_[selected_].type == MetricType::Counter ? sample.counter.value : sample.gauge.value) += value;
  return *this;
}

MetricFamilies& MetricFamilies::Add(const HistogramSample& from, Labels labels) {
  ClientMetric::Histogram& to = Sample(labels).histogram;
  to.bucket.resize(from.bounds.size());
  uint64_t cumulative = 0;
  for (size_t i = 0; i < from.bounds.size(); ++i) {
    cumulative += from.counts[i];
    to.bucket[i].upper_bound = from.bounds[i];
    to.bucket[i].cumulative_count += cumulative;
  }
  to.sample_count += cumulative + from.counts.back();
  to.sample_sum += from.sum;
  return *this;
}

MetricFamilies& MetricFamilies::AddSummary(uint64_t count, double sum, Labels labels) {
  ClientMetric::Summary& summary = Sample(labels).summary;
  summary.sample_count += count;
  summary.sample_sum += sum;
  return *this;
}

std::vector<MetricFamily> MetricFamilies::Take() {
  std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
  return std::move(families_);
}

}  // namespace gateway
