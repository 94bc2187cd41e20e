#include "gateway/control/models/model_orders.h"

#include <fmt/format.h>

#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::control {

ModelOrders::ModelOrders(net::Loop& loop, store::Store& store, ModelSwitches& switches, Environment env)
    : store_(store),
      switches_(switches),
      env_(std::move(env)),
      follower_(loop, store, store::kModelOrder,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> ModelOrders::Start() {
  co_return co_await follower_.Start();
}

void ModelOrders::Replace(const std::vector<store::Object>& all) {
  std::map<std::string, Stored> before = std::exchange(stored_, {});
  for (const store::Object& object : all) Take(object.id, object.version, object.body);
  for (const auto& [model, stored] : before) {
    if (!stored_.contains(model)) Switch(model, {});
  }
  env_.changed();
}

void ModelOrders::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      Drop(change.id);
    }
  }
  env_.changed();
}

void ModelOrders::Take(const std::string& model, uint64_t version, const std::string& body) {
  absl::StatusOr<OrdersOfModel> orders = ReadOrders(model, body);
  if (!orders.ok()) {
    log::Error("stored orders for a model cannot be read",
               {{"model", model}, {"why", conf::Std(orders.status().message())}});
    orders = OrdersOfModel();
  }
  Switch(model, *orders);
  stored_[model] = {*std::move(orders), version};
}

void ModelOrders::Drop(const std::string& model) {
  stored_.erase(model);
  Switch(model, {});
}

void ModelOrders::Switch(const std::string& model, const OrdersOfModel& orders) {
  if (orders.paused) {
    switches_.Get(model)->Pause(orders.paused->reason);
  } else {
    switches_.Get(model)->Resume();
  }
}

const ModelOrder* ModelOrders::Paused(const std::string& model) const {
  const auto at = stored_.find(model);
  return at == stored_.end() || !at->second.orders.paused ? nullptr : &*at->second.orders.paused;
}

const ModelOrder* ModelOrders::Held(const std::string& model, conf::TimePoint now) const {
  const auto at = stored_.find(model);
  if (at == stored_.end() || !at->second.orders.held) return nullptr;
  const ModelOrder& held = *at->second.orders.held;
  return held.until && *held.until <= now ? nullptr : &held;
}

net::Task<absl::Status> ModelOrders::Pause(std::string model, ModelOrder order) {
  return Write(std::move(model), std::move(order), kPauseAction);
}

net::Task<absl::Status> ModelOrders::Hold(std::string model, ModelOrder order) {
  return Write(std::move(model), std::move(order), kHoldAction);
}

net::Task<absl::Status> ModelOrders::Resume(std::string model, ModelOrder by) {
  if (Paused(model) == nullptr)
    co_return absl::FailedPreconditionError(conf::Abseil(fmt::format("{} is not paused", model)));
  co_return co_await Write(std::move(model), std::move(by), kResumeAction);
}

net::Task<absl::Status> ModelOrders::Release(std::string model, ModelOrder by) {
  if (Held(model, by.since) == nullptr)
    co_return absl::FailedPreconditionError(conf::Abseil(fmt::format("{} is not held", model)));
  co_return co_await Write(std::move(model), std::move(by), kReleaseAction);
}

net::Task<absl::Status> ModelOrders::Write(std::string model, ModelOrder order, std::string_view action) {
  const std::string detail = DetailOf(order, action);
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = order.by;
  event.subject = model;
  event.detail = detail;
  if (absl::Status recorded = co_await env_.record(std::move(event)); !recorded.ok()) co_return recorded;
  const auto there = stored_.find(model);
  OrdersOfModel orders = there == stored_.end() ? OrdersOfModel() : there->second.orders;
  TakeRecord({.action = action, .actor = order.by, .detail = detail, .at = order.since}, orders);
  store::Write write{.kind = store::kModelOrder,
                     .id = model,
                     .replaces = there == stored_.end() ? 0 : there->second.version,
                     .body = std::nullopt};
  if (orders.empty() && write.replaces == 0) co_return absl::OkStatus();  // lifted meanwhile
  if (!orders.empty()) write.body = BodyOf(orders);
  std::vector<store::Write> writes;
  writes.push_back(std::move(write));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(committed.status()))
    co_return absl::UnavailableError("another order for this model came first; try again");
  if (!committed.ok()) co_return committed.status();
  co_return co_await follower_.CatchUp();
}

}  // namespace gateway::control
