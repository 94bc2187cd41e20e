// Answers of the admin API about an operator's order for a model.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

// An operator's order for a model.
struct ModelOrder {
  static constexpr std::string_view kSchema = "ModelOrder";

  std::string by = {};  // who gave it
  std::string reason = {};
  Time since = {};
  std::optional<Time> until = {};         // null: until it is lifted
  std::optional<uint64_t> replicas = {};  // of a hold: how many are kept
};

template <class O>
constexpr void Bind(O& o, ModelOrder& order) {
  o.Required("by", order.by);
  o.Required("reason", order.reason);
  o.Required("since", order.since);
  o.Required("until", order.until);
  o.Required("replicas", order.replicas);
}

struct OrdersForModel {
  static constexpr std::string_view kSchema = "OrdersForModel";

  std::string model = {};
  std::optional<ModelOrder> paused = {};
  std::optional<ModelOrder> held = {};
};

template <class O>
constexpr void Bind(O& o, OrdersForModel& orders) {
  o.Required("model", orders.model);
  o.Required("paused", orders.paused);
  o.Required("held", orders.held);
}

}  // namespace gateway::admin::answers
