// Operators' orders for models, as answers show them.
#pragma once

#include "gateway/admin/answers/model_order.h"
#include "gateway/admin/operations.h"

namespace gateway::admin {

std::optional<answers::ModelOrder> ShownPause(const Operations& operations, const std::string& model);
std::optional<answers::ModelOrder> ShownHold(const Operations& operations, const std::string& model,
                                             conf::TimePoint now);

}  // namespace gateway::admin
