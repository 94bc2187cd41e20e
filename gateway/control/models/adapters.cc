#include "gateway/control/models/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/api/coded_status.h"
#include "gateway/audit/recorded_change.h"
#include "gateway/config/types.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

absl::Status Refused(api::Code code, std::string message) {
  return api::WithCode(absl::FailedPreconditionError(conf::Abseil(message)), code);
}

ledger::Event EventOf(const Adapter& adapter, std::string_view action, std::string_view replica = {},
                      std::string_view why = {}) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = adapter.by;
  event.subject = adapter.name;
  event.detail = DetailOf(adapter, replica, why);
  return event;
}

}  // namespace

Adapters::Adapters(net::Loop& loop, store::Store& store, Environment env)
    : env_(std::move(env)), stored_(loop, store, store::kAdapter, ReadAdapter, [this] { env_.changed(); }) {}

const Adapter* Adapters::Find(std::string_view base, std::string_view name) const {
  const auto* const entry = stored_.Find(IdOf(base, name));
  return entry == nullptr ? nullptr : &entry->value;
}

std::vector<Adapter> Adapters::All() const {
  std::vector<Adapter> all;
  all.reserve(stored_.all().size());
  for (const auto& [id, entry] : stored_.all()) all.push_back(entry.value);
  return all;
}

std::vector<config::RunTimeAdapter> Adapters::InForce() const {
  std::vector<config::RunTimeAdapter> all;
  for (const auto& [id, entry] : stored_.all()) {
    if (!entry.value.leaves) all.push_back({entry.value.base, entry.value.name});
  }
  return all;
}

absl::Status Adapters::Check(const Adapter& adapter) const {
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const std::vector<config::Model>& models = runtime->configured().models;
  const auto base = std::ranges::find(models, adapter.base, &config::Model::name);
  if (base == models.end())
    return Refused(api::Code::kNotFound, fmt::format("no model has the name \"{}\"", adapter.base));
  if (!base->adapters) {
    return Refused(api::Code::kConflict,
                   fmt::format("{} loads no adapters: its configuration has no section adapters; give it "
                               "\"adapters: {{sources: [/path/of/adapters]}}\"",
                               adapter.base));
  }
  if (const std::string wrong = config::ValidName()(adapter.name);
      !wrong.empty() || adapter.name.find('|') != std::string::npos) {
    return Refused(api::Code::kInvalidValue,
                   fmt::format("name: \"{}\" {}", adapter.name, wrong.empty() ? "must not have a |" : wrong));
  }
  if (const std::string wrong = config::WhyNotFrom(*base->adapters, adapter.source); !wrong.empty())
    return Refused(api::Code::kInvalidValue, "source: " + wrong);
  if (const Adapter* const known = Find(adapter.base, adapter.name)) {
    return Refused(api::Code::kConflict,
                   known->leaves ? fmt::format("{} of {} is being unloaded; try again in a moment",
                                               adapter.name, adapter.base)
                                 : fmt::format("{} of {} is loaded from {} already; unload it first",
                                               adapter.name, adapter.base, known->source));
  }
  if (config::ModelOfAdapter(models, {adapter.base, adapter.name}).empty()) {
    return Refused(
        api::Code::kConflict,
        fmt::format("a configured model has the name or alias \"{}\"; give another name", adapter.name));
  }
  size_t of_base = 0;
  for (const auto& [id, entry] : stored_.all()) {
    if (entry.value.base == adapter.base) {
      ++of_base;
    } else if (entry.value.name == adapter.name &&
               config::ModelOfAdapter(models, {entry.value.base, adapter.name}) == adapter.name) {
      return Refused(api::Code::kConflict, fmt::format("{} is an adapter of {} already; give another name",
                                                       adapter.name, entry.value.base));
    }
  }
  if (of_base >= kMostOfBase) {
    return Refused(api::Code::kConflict,
                   fmt::format("{} has {} adapters, which is the limit; unload one", adapter.base, of_base));
  }
  return absl::OkStatus();
}

net::Task<absl::Status> Adapters::Note(Adapter adapter, std::string_view action, std::string replica,
                                       std::string why) {
  co_return co_await env_.record(EventOf(adapter, action, replica, why));
}

net::Task<absl::Status> Adapters::Load(Adapter adapter) {
  if (absl::Status wrong = Check(adapter); !wrong.ok()) co_return wrong;
  co_return co_await Commit(
      EventOf(adapter, kLoadAdapterAction),
      store::Write::Create(store::kAdapter, IdOf(adapter.base, adapter.name), BodyOf(adapter)));
}

net::Task<absl::Status> Adapters::Unload(std::string base, std::string name, std::string by) {
  const auto* const entry = stored_.Find(IdOf(base, name));
  if (entry == nullptr || entry->value.leaves) {
    co_return Refused(api::Code::kNotFound,
                      fmt::format("{} has no adapter \"{}\" that was loaded at run time", base, name));
  }
  Adapter adapter = entry->value;
  const uint64_t version = entry->version;
  adapter.by = std::move(by);
  ledger::Event event = EventOf(adapter, kUnloadAdapterAction);
  adapter.leaves = true;
  co_return co_await Commit(
      std::move(event),
      {.kind = store::kAdapter, .id = IdOf(base, name), .replaces = version, .body = BodyOf(adapter)});
}

net::Task<absl::Status> Adapters::Forget(std::string base, std::string name, std::string_view action,
                                         std::string why) {
  const auto* const entry = stored_.Find(IdOf(base, name));
  if (entry == nullptr) co_return absl::OkStatus();
  co_return co_await Commit(
      EventOf(entry->value, action, {}, why),
      {.kind = store::kAdapter, .id = IdOf(base, name), .replaces = entry->version, .body = std::nullopt});
}

net::Task<absl::Status> Adapters::Commit(ledger::Event event, store::Write write) {
  return CommitRecorded(stored_, env_.epoch(), std::move(event), env_.record,
                        [write = std::move(write)] { return std::optional(write); });
}

}  // namespace gateway::control
