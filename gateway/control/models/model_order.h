// Orders of operators for a model. A paused model takes no new requests, and running ones finish; of a held model the
// autoscaler keeps the number of replicas. The store keeps the orders (kind `model_order`) by the model's name.
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace gateway::control {

struct ModelOrder {
  std::string by{};  // who gave it: an admin key's id, a person
  std::string reason{};
  conf::TimePoint since{};
  std::optional<conf::TimePoint> until{};  // nothing: until it is lifted
  uint32_t replicas = 0;                   // for a hold: the number that is kept

  bool operator==(const ModelOrder&) const = default;
};

struct OrdersOfModel {
  std::optional<ModelOrder> paused{};
  std::optional<ModelOrder> held{};

  bool empty() const { return !paused && !held; }
  bool operator==(const OrdersOfModel&) const = default;
};

// The ledger's words.
inline constexpr std::string_view kPauseAction = "model.pause";
inline constexpr std::string_view kResumeAction = "model.resume";
inline constexpr std::string_view kHoldAction = "model.hold";
inline constexpr std::string_view kReleaseAction = "model.release";

// "held at 3 replicas by ada until 2026-01-02T03:04:05Z: the load test runs".
std::string WhyHeld(const ModelOrder& held);
// "paused by ada: its weights are replaced".
std::string WhyPaused(const ModelOrder& paused);

std::string BodyOf(const OrdersOfModel& orders);
// DataLoss names the model.
absl::StatusOr<OrdersOfModel> ReadOrders(const std::string& model, const std::string& body);

// The detail of an order's record in the ledger.
std::string DetailOf(const ModelOrder& order, std::string_view action);
struct OrderRecord {
  std::string_view action;
  std::string_view actor;
  std::string_view detail;
  conf::TimePoint at{};
};
// Applies a record of the ledger to the orders. False: it is no record of an order.
bool TakeRecord(const OrderRecord& record, OrdersOfModel& orders);

}  // namespace gateway::control
