#include "gateway/control/models/model_order.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/shown.h"
#include "conf/text.h"

namespace gateway::control {
namespace {

using nlohmann::json;

std::string WhoAndWhy(const ModelOrder& order) {
  return fmt::format("by {}{}{}{}{}", order.by.empty() ? "an operator" : order.by,
                     order.until ? " until " : "",
                     order.until ? conf::FormatTime(*order.until).substr(0, 19) + "Z" : "",
                     order.reason.empty() ? "" : ": ", order.reason);
}

json ToJson(const ModelOrder& order) {
  json out = {{"reason", order.reason}, {"by", order.by}, {"since_us", conf::ToUnixMicros(order.since)}};
  if (order.until) out["until_us"] = conf::ToUnixMicros(*order.until);
  out["replicas"] = order.replicas;
  return out;
}

ModelOrder FromJson(const json& in) {
  ModelOrder order{.by = in.at("by").get<std::string>(),
                   .reason = in.at("reason").get<std::string>(),
                   .since = conf::FromUnixMicros(in.at("since_us").get<int64_t>()),
                   .replicas = in.value("replicas", uint32_t{0})};
  if (in.contains("until_us")) order.until = conf::FromUnixMicros(in.at("until_us").get<int64_t>());
  return order;
}

}  // namespace

std::string WhyHeld(const ModelOrder& held) {
  return fmt::format("held at {} {}", conf::Counted(held.replicas, "replica"), WhoAndWhy(held));
}

std::string WhyPaused(const ModelOrder& paused) {
  return "paused " + WhoAndWhy(paused);
}

std::string BodyOf(const OrdersOfModel& orders) {
  json out = json::object();
  if (orders.paused) out["paused"] = ToJson(*orders.paused);
  if (orders.held) out["held"] = ToJson(*orders.held);
  return conf::DumpJson(out);
}

absl::StatusOr<OrdersOfModel> ReadOrders(const std::string& model, const std::string& body) {
  OrdersOfModel orders;
  const json in = conf::ParseJson(body);
  try {
    if (in.contains("paused")) orders.paused = FromJson(in.at("paused"));
    if (in.contains("held")) orders.held = FromJson(in.at("held"));
    if (orders.empty()) throw std::invalid_argument("it has no order");
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("orders for {}: {}", model, error.what())));
  }
  return orders;
}

std::string DetailOf(const ModelOrder& order, std::string_view action) {
  json detail = {{"reason", order.reason}};
  if (action == kHoldAction) {
    detail["replicas"] = order.replicas;
    if (order.until) detail["until_us"] = conf::ToUnixMicros(*order.until);
  }
  return conf::DumpJson(detail);
}

bool TakeRecord(const OrderRecord& record, OrdersOfModel& orders) {
  if (record.action == kResumeAction) {
    orders.paused.reset();
  } else if (record.action == kReleaseAction) {
    orders.held.reset();
  } else if (record.action == kPauseAction || record.action == kHoldAction) {
    ModelOrder order{.by = std::string(record.actor), .since = record.at};
    const json detail = conf::ParseJson(record.detail);
    if (detail.is_object()) {
      order.reason = detail.value("reason", "");
      order.replicas = detail.value("replicas", uint32_t{0});
      if (detail.contains("until_us"))
        order.until = conf::FromUnixMicros(detail.value("until_us", int64_t{0}));
    }
    (record.action == kPauseAction ? orders.paused : orders.held) = std::move(order);
  } else {
    return false;
  }
  return true;
}

}  // namespace gateway::control
