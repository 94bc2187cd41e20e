// claim_place: claims a place among the concurrent requests of the caller's path, so that the gateway holds no
// more bodies than requests may run.
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

namespace limits = router::limits;

}  // namespace

StageResult ClaimPlace(Exchange& x) {
  if (!x.body.takes_memory) return StageResult::kContinue;
  limits::ReserveRequest ask;
  ask.output_tokens_bound = 0;  // unknown until the body is read
  limits::ReserveResult outcome = limits::Reserve(x.identity.principal->node, {}, ask, x.at.started);
  if (const auto* refusal = std::get_if<limits::Refusal>(&outcome)) {
    x.client.SetReusable(false);  // the body is not read
    x.grant.rates = limits::Rates(x.identity.principal->node, {}, x.at.started);
    return RefuseByLimit(x, *refusal);
  }
  x.grant.place = std::get<limits::Grant>(std::move(outcome)).reservation;
  return StageResult::kContinue;
}

}  // namespace gateway::stages
