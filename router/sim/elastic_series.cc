#include "router/sim/elastic_series.h"

#include "router/sim/quantiles.h"

namespace router::sim {

void ElasticSeries::FirstToken(double ttft, bool late) {
  if (step_ <= conf::Duration::zero()) return;
  ttft_.push_back(ttft);
  late_ += late ? 1 : 0;
}

void ElasticSeries::Tick(conf::Duration since_begin, const ElasticSample& state) {
  if (step_ <= conf::Duration::zero() || since_begin - begun_ < step_) return;
  ElasticSample& sample = samples_.emplace_back(state);
  const Quantiles ttft = QuantilesOf(ttft_);
  sample.second = conf::ToSeconds(since_begin);
  sample.work = work_ / conf::ToSeconds(since_begin - begun_);
  sample.first_tokens = static_cast<uint32_t>(ttft_.size());
  sample.late = late_;
  sample.ttft_p50 = ttft.p50;
  sample.ttft_p99 = ttft.p99;
  begun_ = since_begin;
  work_ = 0;
  late_ = 0;
  ttft_.clear();
}

}  // namespace router::sim
