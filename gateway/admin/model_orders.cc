// Orders of operators for models: pause, resume, hold, release.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/admin/answers/overview.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/shown_orders.h"
#include "gateway/control/models/model_orders.h"
#include "gateway/net/clock.h"

namespace gateway::admin {
namespace {

using control::ModelOrder;
using control::ModelOrders;

Answer NoSuchModel(const Call& call) {
  return Refuse(api::Code::kNotFound, fmt::format("no model has the name \"{}\"", call.item),
                call.request_id);
}

// By its name; an alias names it, too.
std::optional<std::string> NameOf(const Call& call) {
  const std::optional<ModelId> id = call.runtime->routes().Find(call.item);
  if (!id) return std::nullopt;
  return call.runtime->routes().model(*id).spec.name;
}

Answer ShowOrders(const Operations& operations, const std::string& model) {
  return Json(answers::OrdersForModel{.model = model,
                                      .paused = ShownPause(operations, model),
                                      .held = ShownHold(operations, model, net::Now())});
}

using GiveOrder = net::Task<absl::Status> (ModelOrders::*)(std::string, ModelOrder);

net::Task<Answer> Give(const Operations& operations, const Call& call, GiveOrder change, ModelOrder order) {
  const std::optional<std::string> model = NameOf(call);
  if (!model || operations.model_orders == nullptr) co_return NoSuchModel(call);
  const absl::Status given = co_await (operations.model_orders->*change)(*model, std::move(order));
  if (!given.ok()) co_return Refuse(given, call.request_id);
  co_return ShowOrders(operations, *model);
}

ModelOrder OrderOf(const Call& call) {
  return {.by = call.caller.actor, .reason = call.Text("reason"), .since = call.now};
}

}  // namespace

net::Task<Answer> PauseModel(const Operations& operations, const Call& call) {
  return Give(operations, call, &ModelOrders::Pause, OrderOf(call));
}

net::Task<Answer> ResumeModel(const Operations& operations, const Call& call) {
  return Give(operations, call, &ModelOrders::Resume, OrderOf(call));
}

net::Task<Answer> HoldModel(const Operations& operations, const Call& call) {
  ModelOrder order = OrderOf(call);
  const std::optional<std::string> model = NameOf(call);
  if (!model) co_return NoSuchModel(call);
  if (const std::string text = call.Text("for"); !text.empty()) {
    const std::optional<conf::Duration> time = conf::ParseDuration(text);
    if (!time || *time <= conf::Duration::zero()) {
      co_return Refuse(
          api::Code::kInvalidValue,
          std::vector<FieldProblem>{
              {"for", fmt::format("\"{}\" is not a duration; write one such as 30m or 2h", text)}},
          call.request_id);
    }
    order.until = call.now + *time;
  }
  const control::Status status = operations.scaling();
  const auto of = std::ranges::find(status.models, *model, &control::ModelStatus::model);
  if (of == status.models.end()) {
    co_return Refuse(api::Code::kConflict,
                     fmt::format("no policy of this gateway scales {}, so there is nothing to hold", *model),
                     call.request_id);
  }
  order.replicas = of->wanted;
  co_return co_await Give(operations, call, &ModelOrders::Hold, std::move(order));
}

net::Task<Answer> ReleaseModel(const Operations& operations, const Call& call) {
  return Give(operations, call, &ModelOrders::Release, OrderOf(call));
}

}  // namespace gateway::admin
