// LoRA adapters at run time: load, unload, list.
#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/admin/answers/adapters.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/control/models/adapter_loads.h"
#include "gateway/control/models/adapters.h"

namespace gateway::admin {
namespace {

using control::Adapter;
using control::AdapterAtReplica;
using State = AdapterAtReplica::State;

// What waits longer is loaded later, as `state` says.
constexpr conf::Duration kAwaitLoad = std::chrono::seconds(10);

std::string_view StateOfAdapter(const Adapter& adapter, const std::vector<AdapterAtReplica>& places) {
  if (adapter.leaves) return "leaving";
  const auto any = [&](State state) {
    return std::ranges::find(places, state, &AdapterAtReplica::state) != places.end();
  };
  if (any(State::kLoaded)) return "loaded";
  if (any(State::kLoading)) return "loading";
  return any(State::kRefused) && !any(State::kAbsent) ? "refused" : "waiting";
}

answers::RunTimeAdapter RowOf(const Operations& operations, const Runtime& runtime, const Adapter& adapter) {
  const std::vector<AdapterAtReplica> places = operations.adapter_loads->At(adapter.base, adapter.name);
  answers::RunTimeAdapter row;
  row.name = adapter.name;
  row.model =
      answers::TextOrNull(config::ModelOfAdapter(runtime.configured().models, {adapter.base, adapter.name}));
  row.base = adapter.base;
  row.source = adapter.source;
  row.by = adapter.by;
  row.since = {adapter.since};
  row.state = StateOfAdapter(adapter, places);
  for (const AdapterAtReplica& place : places) {
    answers::AdapterPlace& at = row.replicas.emplace_back();
    at.replica = place.replica;
    at.state = NameOf(place.state);
    at.why = answers::TextOrNull(place.why);
    at.used = answers::TimeOrNull(place.used);
  }
  return row;
}

// By its name; an alias names it, too.
std::optional<std::string> BaseOf(const Operations& operations, const Call& call) {
  const std::optional<ModelId> id = call.runtime->routes().Find(call.item);
  if (!id || operations.adapters == nullptr) return std::nullopt;
  return call.runtime->routes().model(*id).spec.name;
}

Answer NoSuchBase(const Call& call) {
  return Refuse(api::Code::kNotFound, fmt::format("no model has the name \"{}\"", call.item),
                call.request_id);
}

}  // namespace

Answer ListAdapters(const Operations& operations, const Call& call) {
  const std::optional<std::string> base = BaseOf(operations, call);
  if (!base) return NoSuchBase(call);
  std::vector<answers::RunTimeAdapter> all;
  for (const Adapter& adapter : operations.adapters->All()) {
    if (adapter.base == *base) all.push_back(RowOf(operations, *call.runtime, adapter));
  }
  return ListPage(std::move(all), &answers::RunTimeAdapter::name, call);
}

net::Task<Answer> LoadAdapter(const Operations& operations, const Call& call) {
  const std::optional<std::string> base = BaseOf(operations, call);
  if (!base) co_return NoSuchBase(call);
  const Adapter adapter{.base = *base,
                        .name = call.Text("name"),
                        .source = call.Text("source"),
                        .by = call.caller.actor,
                        .since = call.now};
  const absl::Status loaded = co_await operations.adapters->Load(adapter);
  if (!loaded.ok()) co_return Refuse(loaded, call.request_id);
  const std::optional<std::string> refused =
      co_await operations.adapter_loads->AwaitFirst(adapter.base, adapter.name, kAwaitLoad);
  if (refused) {
    const absl::Status forgotten = co_await operations.adapters->Forget(
        adapter.base, adapter.name, control::kRefusedAdapterAction, *refused);
    if (!forgotten.ok()) co_return Refuse(forgotten, call.request_id);
    co_return Refuse(api::Code::kAdapterRefused,
                     fmt::format("no engine of {} loads {} from {}: {}", adapter.base, adapter.name,
                                 adapter.source, *refused),
                     call.request_id);
  }
  const std::shared_ptr<const Runtime> runtime = operations.runtime();
  co_return Json(RowOf(operations, *runtime, adapter), 201);
}

net::Task<Answer> UnloadAdapter(const Operations& operations, const Call& call) {
  const std::optional<std::string> base = BaseOf(operations, call);
  if (!base) co_return NoSuchBase(call);
  const absl::Status unloaded =
      co_await operations.adapters->Unload(*base, call.second_item, call.caller.actor);
  if (!unloaded.ok()) co_return Refuse(unloaded, call.request_id);
  operations.adapter_loads->Wake();
  const Adapter* const adapter = operations.adapters->Find(*base, call.second_item);
  if (adapter == nullptr) {
    co_return Json(answers::RunTimeAdapter{
        .name = call.second_item, .base = *base, .source = {}, .by = call.caller.actor, .state = "gone"});
  }
  co_return Json(RowOf(operations, *call.runtime, *adapter));
}

}  // namespace gateway::admin
