#include "gateway/admin/shown_orders.h"

#include "gateway/control/models/model_orders.h"

namespace gateway::admin {
namespace {

answers::ModelOrder Shown(const control::ModelOrder& order) {
  return {.by = order.by,
          .reason = order.reason,
          .since = {order.since},
          .until = answers::TimeOrNull(order.until)};
}

}  // namespace

std::optional<answers::ModelOrder> ShownPause(const Operations& operations, const std::string& model) {
  const control::ModelOrder* const order =
      operations.model_orders == nullptr ? nullptr : operations.model_orders->Paused(model);
  return order == nullptr ? std::nullopt : std::optional(Shown(*order));
}

std::optional<answers::ModelOrder> ShownHold(const Operations& operations, const std::string& model,
                                             conf::TimePoint now) {
  const control::ModelOrder* const order =
      operations.model_orders == nullptr ? nullptr : operations.model_orders->Held(model, now);
  if (order == nullptr) return std::nullopt;
  answers::ModelOrder shown = Shown(*order);
  shown.replicas = order->replicas;
  return shown;
}

}  // namespace gateway::admin
