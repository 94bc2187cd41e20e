#include "router/sim/report_json.h"

#include <nlohmann/json.hpp>

namespace router::sim {
namespace {

nlohmann::ordered_json AsJson(const Quantiles& q) {
  return {{"mean", q.mean}, {"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}};
}

}  // namespace

nlohmann::ordered_json AsJson(const Report& r) {
  return {{"requests", r.requests},
          {"finished", r.finished},
          {"broken", r.broken},
          {"refused", r.refused},
          {"lost",
           {{"broken", r.lost.broken},
            {"queue_full", r.lost.queue_full},
            {"too_late", r.lost.too_late},
            {"expired", r.lost.expired},
            {"no_replica", r.lost.no_replica},
            {"engine_refused", r.lost.engine_refused}}},
          {"retried", r.retried},
          {"held", r.held},
          {"hit_ratio", r.hit_ratio},
          {"predicted_hit_ratio", r.predicted_ratio},
          {"offered_hit_ratio", r.offered_ratio},
          {"wait_s", AsJson(r.wait)},
          {"ttft_s", AsJson(r.ttft)},
          {"token_time_s", AsJson(r.token_time)},
          {"total_s", AsJson(r.total)},
          {"within_slo", r.within_slo},
          {"spread", r.spread},
          {"preemptions", r.preemptions},
          {"adapter_loads", r.adapter_loads},
          {"handed_over", r.remote_prefill},
          {"seconds", r.seconds}};
}

}  // namespace router::sim
