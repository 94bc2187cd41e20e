// Metrics: everything that Tidegate counts, added up over the shards when it is scraped.
//
// Names are OpenTelemetry's where it has one, with dots as underscores and the unit as a suffix, as its
// exporters write them; ours begin with tidegate_. gen_ai.client.token.usage is a histogram over {token}, a
// unit that adds no suffix, so it is gen_ai_client_token_usage here: its _sum by gen_ai_token_type is the
// token counter. Cached tokens are part of the input and therefore have a counter of their own. Labels come
// from the configuration only, and each has at most telemetry.metrics.max_label_values values and "other".
//
// Thread: the control loop's. A scrape reads cells that shards write, without stopping them: the figures of
// one scrape may be a request apart.
#pragma once

#include <prometheus/collectable.h>

#include <string>

#include "gateway/admin/operations.h"
#include "gateway/metrics/metric_families.h"

namespace gateway {

class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(const Operations& operations) : operations_(operations) {}

  std::vector<prometheus::MetricFamily> Collect() const override;
  // Prometheus' text format, version 0.0.4.
  std::string Render() const;

 private:
  void CollectModels(MetricFamilies& out) const;
  void CollectQueues(MetricFamilies& out) const;
  void CollectReplicas(MetricFamilies& out) const;
  void CollectPrefixes(MetricFamilies& out) const;
  void CollectScaling(MetricFamilies& out) const;
  void CollectCluster(MetricFamilies& out) const;
  void CollectDevices(const control::TelemetryStatus& telemetry, size_t max, MetricFamilies& out) const;
  void CollectJobQueues(const control::ClusterStatus& cluster, size_t max, MetricFamilies& out) const;
  void CollectKvEvents(MetricFamilies& out) const;
  void CollectRoutingLog(MetricFamilies& out) const;
  void CollectShards(MetricFamilies& out) const;
  void CollectLimits(MetricFamilies& out) const;
  void CollectLedger(MetricFamilies& out) const;
  void CollectKeys(MetricFamilies& out) const;
  void CollectBatches(MetricFamilies& out) const;
  void CollectFeedback(MetricFamilies& out) const;
  void CollectServices(MetricFamilies& out) const;
  void CollectGateways(MetricFamilies& out) const;
  void CollectProcess(MetricFamilies& out) const;

  const Operations& operations_;
  mutable LabelValues models_;
  mutable LabelValues classes_;
  mutable LabelValues replicas_;
  mutable LabelValues tenants_;
  mutable LabelValues job_queues_;
  mutable LabelValues nodes_;
};

}  // namespace gateway
