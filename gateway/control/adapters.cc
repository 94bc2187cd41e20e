#include "gateway/control/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/api/coded_status.h"
#include "gateway/config/types.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

absl::Status Refused(api::Code code, std::string message) {
  return api::WithCode(absl::FailedPreconditionError(conf::Abseil(message)), code);
}

}  // namespace

Adapters::Adapters(net::Loop& loop, store::Store& store, Environment env)
    : store_(store),
      env_(std::move(env)),
      follower_(loop, store, store::kAdapter,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> Adapters::Start() {
  co_return co_await follower_.Start();
}

void Adapters::Replace(const std::vector<store::Object>& all) {
  stored_.clear();
  for (const store::Object& object : all) Take(object.id, object.version, object.body);
  env_.changed();
}

void Adapters::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      Take(change.id, change.number, *change.body);
    } else {
      stored_.erase(change.id);
    }
  }
  env_.changed();
}

void Adapters::Take(const std::string& id, uint64_t version, const std::string& body) {
  absl::StatusOr<Adapter> adapter = ReadAdapter(id, body);
  if (!adapter.ok()) {
    log::Error("a stored adapter cannot be read", {{"why", conf::Std(adapter.status().message())}});
    stored_.erase(id);
    return;
  }
  stored_[id] = {*std::move(adapter), version};
}

const Adapter* Adapters::Find(std::string_view base, std::string_view name) const {
  const auto at = stored_.find(IdOf(base, name));
  return at == stored_.end() ? nullptr : &at->second.adapter;
}

std::vector<Adapter> Adapters::All() const {
  std::vector<Adapter> all;
  all.reserve(stored_.size());
  for (const auto& [id, stored] : stored_) all.push_back(stored.adapter);
  return all;
}

std::vector<config::RunTimeAdapter> Adapters::InForce() const {
  std::vector<config::RunTimeAdapter> all;
  for (const auto& [id, stored] : stored_) {
    if (!stored.adapter.leaves) all.push_back({stored.adapter.base, stored.adapter.name});
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
  for (const auto& [id, stored] : stored_) {
    if (stored.adapter.base == adapter.base) {
      ++of_base;
    } else if (stored.adapter.name == adapter.name &&
               config::ModelOfAdapter(models, {stored.adapter.base, adapter.name}) == adapter.name) {
      return Refused(api::Code::kConflict, fmt::format("{} is an adapter of {} already; give another name",
                                                       adapter.name, stored.adapter.base));
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
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = adapter.by;
  event.subject = adapter.name;
  event.detail = DetailOf(adapter, replica, why);
  co_return co_await env_.record(std::move(event));
}

net::Task<absl::Status> Adapters::Load(Adapter adapter) {
  if (absl::Status wrong = Check(adapter); !wrong.ok()) co_return wrong;
  if (absl::Status recorded = co_await Note(adapter, kLoadAdapterAction, {}, {}); !recorded.ok())
    co_return recorded;
  co_return co_await Commit(
      store::Write::Create(store::kAdapter, IdOf(adapter.base, adapter.name), BodyOf(adapter)));
}

net::Task<absl::Status> Adapters::Unload(std::string base, std::string name, std::string by) {
  const auto at = stored_.find(IdOf(base, name));
  if (at == stored_.end() || at->second.adapter.leaves) {
    co_return Refused(api::Code::kNotFound,
                      fmt::format("{} has no adapter \"{}\" that was loaded at run time", base, name));
  }
  Adapter adapter = at->second.adapter;
  const uint64_t version = at->second.version;
  adapter.by = std::move(by);
  if (absl::Status recorded = co_await Note(adapter, kUnloadAdapterAction, {}, {}); !recorded.ok())
    co_return recorded;
  adapter.leaves = true;
  co_return co_await Commit(
      {.kind = store::kAdapter, .id = IdOf(base, name), .replaces = version, .body = BodyOf(adapter)});
}

net::Task<absl::Status> Adapters::Forget(std::string base, std::string name, std::string_view action,
                                         std::string why) {
  const auto at = stored_.find(IdOf(base, name));
  if (at == stored_.end()) co_return absl::OkStatus();
  const Adapter adapter = at->second.adapter;
  const uint64_t version = at->second.version;
  if (absl::Status recorded = co_await Note(adapter, action, {}, std::move(why)); !recorded.ok())
    co_return recorded;
  co_return co_await Commit(
      {.kind = store::kAdapter, .id = IdOf(base, name), .replaces = version, .body = std::nullopt});
}

net::Task<absl::Status> Adapters::Commit(store::Write write) {
  std::vector<store::Write> writes;
  writes.push_back(std::move(write));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes), env_.epoch());
  if (absl::IsAborted(committed.status()))
    co_return absl::UnavailableError("another change of this adapter came first; try again");
  if (absl::IsPermissionDenied(committed.status()))
    co_return absl::UnavailableError("another gateway leads now; try again");
  if (!committed.ok()) co_return committed.status();
  co_return co_await follower_.CatchUp();
}

}  // namespace gateway::control
