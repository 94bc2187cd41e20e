// MetricFamilies: collects the samples of one scrape. LabelValues: bounds the values of a label.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gateway {

// Keeps the first `max` values of a label for ever, and replaces all others by "other": the number of series
// is bounded, and no counter moves to another series. One thread at a time.
class LabelValues {
 public:
  std::string_view Bounded(std::string_view value, size_t max);

 private:
  std::set<std::string, std::less<>> known_;
};

struct HistogramSample {
  std::span<const double> bounds;
  std::vector<uint64_t> counts;  // one more than bounds; not cumulative
  double sum = 0;
};

class MetricFamilies {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Selects the family of the samples that follow. A known name continues its family; its `help` is ignored.
  MetricFamilies& Counter(std::string_view name, std::string_view help);
  MetricFamilies& Gauge(std::string_view name, std::string_view help);
  MetricFamilies& Histogram(std::string_view name, std::string_view help);
  MetricFamilies& Summary(std::string_view name, std::string_view help);

  // Samples with the same labels are added up, as "other" needs.
  MetricFamilies& Add(double value, Labels labels = {});
  MetricFamilies& Add(uint64_t value, Labels labels = {}) { return Add(static_cast<double>(value), labels); }
  MetricFamilies& Add(int64_t value, Labels labels = {}) { return Add(static_cast<double>(value), labels); }
  MetricFamilies& Add(bool value, Labels labels = {}) { return Add(value ? 1.0 : 0.0, labels); }
  MetricFamilies& Add(const HistogramSample& sample, Labels labels = {});
  MetricFamilies& AddSummary(uint64_t count, double sum, Labels labels = {});

  // The families with samples, in the order of their first selection.
  std::vector<prometheus::MetricFamily> Take();

 private:
  MetricFamilies& Select(std::string_view name, std::string_view help, prometheus::MetricType type);
  prometheus::ClientMetric& Sample(Labels labels);

  std::vector<prometheus::MetricFamily> families_;
  size_t selected_ = 0;
};

}  // namespace gateway
