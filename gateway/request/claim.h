// Claim: what a request claims from the limits of the model that may serve it, at that model's price. The model
// is the asked one, or a fallback that the caller may use.
#pragma once

#include <optional>

#include "conf/time.h"
#include "gateway/request/exchange.h"
#include "router/attempt.h"
#include "router/limits/reservation.h"

namespace gateway {

// Reserves what `ask` wants in all limits of the path. Gives up the place in exchange, if the request has one.
router::limits::ReserveResult ReserveAll(Exchange& x, const ModelRuntime& model,
                                         const router::limits::ReserveRequest& ask);

// What the request claims from this model's limits.
router::limits::ReserveRequest ClaimOf(const Exchange& x, const ModelRuntime& model);

// Bounds the answer by what the limits granted and by the model's own maximum.
void SetOutputCap(Exchange& x, const ModelRuntime& model, std::optional<int64_t> granted);

// Admits a fallback if the caller may use it and its limits have room. Owned by the exchange.
class FallbackClaims final : public router::FallbackGate {
 public:
  explicit FallbackClaims(Exchange& x) : x_(x) {}

  bool Enter(router::ModelId fallback, conf::TimePoint now) override;
  void Leave(conf::TimePoint now) override;

 private:
  Exchange& x_;
};

}  // namespace gateway
