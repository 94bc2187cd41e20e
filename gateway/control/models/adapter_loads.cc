#include "gateway/control/models/adapter_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "conf/words.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "gateway/replicas/ask_replica.h"
#include "plugins/engines/engine_lora.h"

namespace gateway::control {
namespace {

using plugins::engines::EngineLora;

constexpr conf::Duration kTickOfAdapters = std::chrono::milliseconds(100);
constexpr conf::Duration kListEvery = std::chrono::seconds(2);
constexpr conf::Duration kListAgain =
    std::chrono::seconds(1);  // by a gateway that only asks, and after a failure
constexpr conf::Duration kListPatience = std::chrono::seconds(5);
constexpr conf::Duration kPollFirst = std::chrono::milliseconds(50);
// Until requests that were sent just before an adapter leaves its slot have ended.
constexpr conf::Duration kDepartPatience = std::chrono::seconds(1);
constexpr conf::Duration kPollDeparture = std::chrono::milliseconds(20);
constexpr conf::Duration kFirstPause = std::chrono::seconds(2);  // after a refusal; it doubles
constexpr uint32_t kMostDoublings = 7;
constexpr std::string_view kActor = "control";

constexpr conf::Word<AdapterAtReplica::State> kPlaceStates[] = {
    {"loaded", AdapterAtReplica::State::kLoaded},
    {"loading", AdapterAtReplica::State::kLoading},
    {"refused", AdapterAtReplica::State::kRefused},
    {"absent", AdapterAtReplica::State::kAbsent}};

const config::AdapterLoading& SettingsOf(const Runtime& runtime, const std::string& base) {
  static const config::AdapterLoading none;
  const config::Model* const model = runtime.config().FindModel(base);
  return model != nullptr && model->adapters ? *model->adapters : none;
}

const EngineLora* CallsOf(const Runtime& runtime, router::ReplicaId replica) {
  return plugins::engines::FindEngineLora(Name(runtime.replica(replica).config->engine));
}

}  // namespace

std::string_view NameOf(AdapterAtReplica::State state) {
  return conf::WordOf(kPlaceStates, state);
}

bool AdapterLoads::Known::Lists(const std::string& name) const {
  return std::ranges::find(listed, name) != listed.end();
}

AdapterLoads::AdapterLoads(net::Loop& loop, Adapters& adapters, Environment env)
    : Alarm(loop.watchdog), loop_(loop), adapters_(adapters), env_(std::move(env)) {}

void AdapterLoads::Wake() {
  if (started_ && !stopped_) SetAfter(conf::Duration::zero());
}

void AdapterLoads::Stop() {
  stopped_ = true;
  Clear();
  calls_.Abort();
}

std::vector<Adapter> AdapterLoads::OfBase(const std::string& base) const {
  std::vector<Adapter> of_base;
  for (Adapter& adapter : adapters_.All()) {
    if (adapter.base == base) of_base.push_back(std::move(adapter));
  }
  return of_base;
}

std::vector<AdapterLoads::Place> AdapterLoads::PlacesOf(const Runtime& runtime,
                                                        const std::string& base) const {
  std::vector<Place> places;
  const std::optional<ModelId> id = runtime.routes().Find(base);
  if (!id) return places;
  for (const router::Replica& replica : runtime.routes().replicas(*id)) {
    if (CallsOf(runtime, replica.id) != nullptr) places.push_back({replica.id, replica.spec.identity});
  }
  return places;
}

bool AdapterLoads::CanAsk(const Runtime& runtime, router::ReplicaId replica) const {
  return runtime.load()[replica].health.Usable();
}

void AdapterLoads::OnAlarm() {
  if (stopped_) return;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  std::set<std::string> bases;
  for (const Adapter& adapter : adapters_.All()) bases.insert(adapter.base);
  for (auto& [identity, known] : replicas_) known.seen = false;
  const AdapterUses elsewhere = env_.acts() ? env_.elsewhere() : AdapterUses();
  for (const std::string& base : bases) TickBase(runtime, base, elsewhere);
  std::erase_if(replicas_, [](auto& entry) {
    if (entry.second.seen || entry.second.busy) return false;
    entry.second.state->adapters.SetHeld({});
    return true;
  });
  std::erase_if(used_, [this](const auto& entry) {
    return adapters_.Find(entry.first.first, entry.first.second) == nullptr;
  });
  if (!bases.empty() || !replicas_.empty()) SetAfter(kTickOfAdapters);
}

void AdapterLoads::TickBase(const std::shared_ptr<const Runtime>& runtime, const std::string& base,
                            const AdapterUses& elsewhere) {
  const std::vector<Adapter> adapters = OfBase(base);
  const std::vector<Place> places = PlacesOf(*runtime, base);
  const conf::TimePoint now = net::Now();
  for (const Place& place : places) {
    Known& known = replicas_[place.identity];
    known.seen = true;
    known.state = runtime->load().shared(place.id);
    for (const Adapter& adapter : adapters) {
      const auto use = known.state->adapters.ReadUse(router::AdapterIdOf(adapter.name));
      conf::TimePoint& used = used_[{base, adapter.name}];
      used = std::max({used, adapter.since, use.last.value_or(adapter.since)});
    }
    ShowHeld(place, adapters);
    if (!known.busy && now >= known.next_list && CanAsk(*runtime, place.id)) {
      known.busy = true;
      loop_.tasks.Spawn(List(runtime, place));
    }
  }
  if (!env_.acts()) return;
  Act(runtime, base, places, elsewhere);
  ForgetGone(*runtime, adapters, places);
}

// Tells the router where requests for each adapter may go.
void AdapterLoads::ShowHeld(const Place& place, const std::vector<Adapter>& adapters) {
  const Known& known = replicas_.at(place.identity);
  std::vector<router::AdapterId> held;
  for (const Adapter& adapter : adapters) {
    if (known.Lists(adapter.name) && !known.departs.contains(adapter.name))
      held.push_back(router::AdapterIdOf(adapter.name));
  }
  known.state->adapters.SetHeld(held);
}

void AdapterLoads::Act(const std::shared_ptr<const Runtime>& runtime, const std::string& base,
                       const std::vector<Place>& places, const AdapterUses& elsewhere) {
  const conf::TimePoint now = net::Now();
  const std::vector<Adapter> adapters = OfBase(base);
  std::vector<std::string> waited_for;
  if (const std::optional<ModelId> id = runtime->routes().Find(base))
    waited_for = runtime->model(*id).waits->WaitedFor();
  static const AdapterUse unused;
  const auto use_elsewhere = [&](const std::string& name) -> const AdapterUse& {
    const auto at = elsewhere.find(IdOf(base, name));
    return at == elsewhere.end() ? unused : at->second;
  };
  std::vector<router::PlannedAdapter> planned;
  for (const Adapter& adapter : adapters) {
    const AdapterUse& there = use_elsewhere(adapter.name);
    conf::TimePoint& used = used_[{base, adapter.name}];
    if (there.idle) used = std::max(used, now - *there.idle);
    const std::string model =
        config::ModelOfAdapter(runtime->configured().models, {adapter.base, adapter.name});
    const bool waits = there.waits || std::ranges::find(waited_for, model) != waited_for.end() ||
                       wanted_.contains(IdOf(adapter.base, adapter.name));
    planned.push_back({.id = router::AdapterIdOf(adapter.name),
                       .leaves = adapter.leaves,
                       .waited_for = waits && !adapter.leaves,
                       .used = used});
  }
  std::vector<router::AdapterReplica> replicas;
  for (const Place& place : places) {
    const Known& known = replicas_.at(place.identity);
    router::AdapterReplica& replica = replicas.emplace_back();
    for (size_t a = 0; a < adapters.size(); ++a) {
      const std::string& name = adapters[a].name;
      if (known.Lists(name)) {
        replica.held.push_back({.id = planned[a].id,
                                .in_use = known.state->adapters.ReadUse(planned[a].id).in_flight > 0 ||
                                          use_elsewhere(name).in_flight.contains(place.identity)});
      }
      const auto refused = known.refused.find(name);
      if (refused != known.refused.end() && now < refused->second.until)
        replica.refused.push_back(planned[a].id);
    }
    replica.others = static_cast<uint32_t>(known.listed.size() - replica.held.size());
    if (!known.loads.empty()) replica.loads = router::AdapterIdOf(known.loads);
    replica.ready = !known.busy && known.listed_at && CanAsk(*runtime, place.id);
  }
  const auto name_of = [&](router::AdapterId id) {
    const auto at = std::ranges::find(planned, id, &router::PlannedAdapter::id);
    return at == planned.end() ? std::string() : adapters[static_cast<size_t>(at - planned.begin())].name;
  };
  for (const router::AdapterChange& change :
       router::PlanAdapters(planned, replicas, SettingsOf(*runtime, base).slots)) {
    const Place& place = places[change.replica];
    Known& known = replicas_.at(place.identity);
    known.busy = true;
    known.loads = name_of(change.load);
    if (const std::string departs = name_of(change.unload); !departs.empty()) known.departs.insert(departs);
    ShowHeld(place, adapters);
    loop_.tasks.Spawn(Change(runtime, place, base, name_of(change.unload), known.loads));
  }
}

// An adapter that leaves is forgotten once no replica that can be asked lists it.
void AdapterLoads::ForgetGone(const Runtime& runtime, const std::vector<Adapter>& adapters,
                              const std::vector<Place>& places) {
  for (const Adapter& adapter : adapters) {
    if (!adapter.leaves || forgetting_.contains(IdOf(adapter.base, adapter.name))) continue;
    const bool remains = std::ranges::any_of(places, [&](const Place& place) {
      const Known& known = replicas_.at(place.identity);
      return known.Lists(adapter.name) || known.loads == adapter.name ||
             (!known.listed_at && CanAsk(runtime, place.id));
    });
    if (remains) continue;
    forgetting_.insert(IdOf(adapter.base, adapter.name));
    loop_.tasks.Spawn(Forget(adapter.base, adapter.name));
  }
}

net::Task<void> AdapterLoads::Forget(std::string base, std::string name) {
  const absl::Status forgotten =
      co_await adapters_.Forget(base, name, kForgottenAdapterAction, "no engine holds it any more");
  if (!forgotten.ok()) {
    log::Warn("an unloaded adapter cannot be forgotten yet",
              {{"adapter", name}, {"why", conf::Std(forgotten.message())}});
    net::Sleep pause(loop_.watchdog);
    co_await pause.For(kListAgain);
  }
  forgetting_.erase(IdOf(base, name));
}

net::Task<absl::StatusOr<net::http::FetchResponse>> AdapterLoads::Ask(std::shared_ptr<const Runtime> runtime,
                                                                      router::ReplicaId replica,
                                                                      std::string path, std::string body,
                                                                      conf::Duration timeout) {
  net::http::FetchRequest request = AskReplica(runtime->replica(replica), path, timeout);
  if (!body.empty()) {
    request.method = "POST";
    request.headers.emplace_back("content-type", "application/json");
    request.body = std::move(body);
  }
  co_return co_await net::http::Fetch(loop_, std::move(request), &calls_);
}

net::Task<void> AdapterLoads::List(std::shared_ptr<const Runtime> runtime, Place place) {
  const EngineLora& calls = *CallsOf(*runtime, place.id);
  const absl::StatusOr<net::http::FetchResponse> answer =
      co_await Ask(runtime, place.id, std::string(calls.list), {}, kListPatience);
  Known& known = replicas_.at(place.identity);
  known.busy = false;
  const conf::TimePoint now = net::Now();
  known.next_list = now + kListAgain;
  known.away = !answer.ok();
  if (!answer.ok() || answer->status != 200) co_return;
  absl::StatusOr<std::vector<std::string>> listed = plugins::engines::ListedAdapters(answer->body);
  if (!listed.ok()) co_return;
  const bool news = !known.listed_at || known.listed != *listed;
  known.listed = *std::move(listed);
  known.listed_at = now;
  if (env_.acts()) known.next_list = now + kListEvery;
  for (const std::string& name : known.listed) known.refused.erase(name);
  if (news) {
    Wake();
    env_.changed();
  }
}

// First unloads the adapter that leaves, then loads the one that takes its place.
net::Task<void> AdapterLoads::Change(std::shared_ptr<const Runtime> runtime, Place place, std::string base,
                                     std::string unload, std::string load) {
  const EngineLora& calls = *CallsOf(*runtime, place.id);
  const conf::Duration timeout = SettingsOf(*runtime, base).timeout;
  std::string trouble;
  if (!unload.empty()) trouble = co_await UnloadAt(runtime, place, base, unload, load);
  if (trouble.empty() && !load.empty()) {
    const auto answer = co_await Ask(runtime, place.id, std::string(calls.load),
                                     plugins::engines::LoadBody(load, SourceOf(base, load)), timeout);
    Known& known = replicas_.at(place.identity);
    const std::string refused = WhyRefused(answer);
    if (refused.empty()) {
      if (!known.Lists(load)) known.listed.push_back(load);
      known.refused.erase(load);
      log::Info("adapter loaded", {{"adapter", load}, {"replica", place.identity}});
    } else if (!stopped_) {
      Refusal& refusal = known.refused[load];
      refusal.why = refused;
      refusal.until = net::Now() + kFirstPause * (1U << std::min(refusal.times, kMostDoublings));
      ++refusal.times;
      log::Warn("an engine refuses an adapter",
                {{"adapter", load}, {"replica", place.identity}, {"why", refused}});
    }
  }
  Known& known = replicas_.at(place.identity);
  known.busy = false;
  known.loads.clear();
  known.departs.erase(unload);
  known.next_list = net::Now();
  Wake();
  env_.changed();
}

// Why it stays; empty: it is unloaded.
net::Task<std::string> AdapterLoads::UnloadAt(std::shared_ptr<const Runtime> runtime, Place place,
                                              std::string base, std::string name, std::string for_another) {
  const router::AdapterId id = router::AdapterIdOf(name);
  net::Sleep pause(loop_.watchdog);
  const conf::TimePoint give_up = net::Now() + kDepartPatience;
  // A shard may have picked the replica a moment ago: its request is waited for, too.
  do {
    co_await pause.For(kPollDeparture);
    if (net::Now() >= give_up) co_return "requests use it";
  } while (replicas_.at(place.identity).state->adapters.ReadUse(id).in_flight > 0);
  const EngineLora& calls = *CallsOf(*runtime, place.id);
  const auto answer = co_await Ask(runtime, place.id, std::string(calls.unload),
                                   plugins::engines::UnloadBody(name), SettingsOf(*runtime, base).timeout);
  const bool is_unknown = answer.ok() && answer->status == 404;
  if (std::string why = WhyRefused(answer); !why.empty() && !is_unknown) {
    log::Warn("an engine does not unload an adapter",
              {{"adapter", name}, {"replica", place.identity}, {"why", why}});
    co_return why;
  }
  std::erase(replicas_.at(place.identity).listed, name);
  log::Info("adapter unloaded", {{"adapter", name}, {"replica", place.identity}});
  const Adapter* const adapter = adapters_.Find(base, name);
  if (adapter == nullptr || for_another.empty()) co_return std::string();
  Adapter displaced = *adapter;
  displaced.by = kActor;
  const absl::Status noted = co_await adapters_.Note(
      std::move(displaced), kDisplacedAdapterAction, place.identity,
      fmt::format("{} needed its slot, and it was the least recently used one", for_another));
  if (!noted.ok()) {
    log::Warn("the ledger has no record of an adapter that left its slot",
              {{"adapter", name}, {"why", conf::Std(noted.message())}});
  }
  co_return std::string();
}

// Empty: it is done. An engine that has the adapter already says so in its refusal.
std::string AdapterLoads::WhyRefused(const absl::StatusOr<net::http::FetchResponse>& answer) {
  if (!answer.ok()) return std::string(conf::Std(answer.status().message()));
  if (answer->status < 300) return {};
  const bool has_it = answer->status == 400 && answer->body.find("already") != std::string::npos;
  return has_it ? std::string() : plugins::engines::RefusalIn(answer->status, answer->body);
}

std::string AdapterLoads::SourceOf(const std::string& base, const std::string& name) const {
  const Adapter* const adapter = adapters_.Find(base, name);
  return adapter == nullptr ? std::string() : adapter->source;
}

net::Task<std::optional<std::string>> AdapterLoads::AwaitFirst(std::string base, std::string name,
                                                               conf::Duration patience) {
  const std::string id = IdOf(base, name);
  wanted_.insert(id);
  net::Sleep pause(loop_.watchdog);
  const conf::TimePoint give_up = net::Now() + patience;
  std::optional<std::string> why;
  while (!stopped_ && net::Now() < give_up) {
    Wake();
    co_await pause.For(kPollFirst);
    const std::shared_ptr<const Runtime> runtime = env_.runtime();
    bool loaded = false;
    bool open = false;  // some replica may still load it
    size_t asked = 0;
    why.reset();
    for (const Place& place : PlacesOf(*runtime, base)) {
      const auto at = replicas_.find(place.identity);
      const Known* const known = at == replicas_.end() ? nullptr : &at->second;
      if (!CanAsk(*runtime, place.id) || (known != nullptr && known->away)) continue;
      ++asked;
      loaded = loaded || (known != nullptr && known->Lists(name));
      const bool has_refused = known != nullptr && known->refused.contains(name);
      open = open || !has_refused;
      if (has_refused) why = fmt::format("{}: {}", place.identity, known->refused.at(name).why);
    }
    if (loaded) why.reset();
    if (loaded || asked == 0 || !open) break;
  }
  wanted_.erase(id);
  co_return why;
}

AdapterUses AdapterLoads::UsesHere() const {
  AdapterUses uses;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  const conf::TimePoint now = net::Now();
  for (const Adapter& adapter : adapters_.All()) {
    AdapterUse use;
    if (const std::optional<ModelId> id = runtime->routes().Find(adapter.base)) {
      const std::vector<std::string> waited_for = runtime->model(*id).waits->WaitedFor();
      const std::string model =
          config::ModelOfAdapter(runtime->configured().models, {adapter.base, adapter.name});
      use.waits = std::ranges::find(waited_for, model) != waited_for.end();
    }
    for (const Place& place : PlacesOf(*runtime, adapter.base)) {
      const auto known = replicas_.find(place.identity);
      if (known == replicas_.end() || known->second.state == nullptr) continue;
      const auto seen = known->second.state->adapters.ReadUse(router::AdapterIdOf(adapter.name));
      if (seen.in_flight > 0) use.in_flight[place.identity] = seen.in_flight;
      if (seen.last) use.idle = std::min(use.idle.value_or(conf::Duration::max()), now - *seen.last);
    }
    if (use != AdapterUse()) uses.emplace(IdOf(adapter.base, adapter.name), std::move(use));
  }
  return uses;
}

std::vector<AdapterAtReplica> AdapterLoads::At(const std::string& base, const std::string& name) const {
  using State = AdapterAtReplica::State;
  std::vector<AdapterAtReplica> all;
  const std::shared_ptr<const Runtime> runtime = env_.runtime();
  for (const Place& place : PlacesOf(*runtime, base)) {
    AdapterAtReplica& at = all.emplace_back();
    at.replica = runtime->replica(place.id).name();
    const auto known = replicas_.find(place.identity);
    if (known == replicas_.end()) continue;
    const auto refused = known->second.refused.find(name);
    if (known->second.Lists(name)) {
      at.state = State::kLoaded;
    } else if (known->second.loads == name) {
      at.state = State::kLoading;
    } else if (refused != known->second.refused.end()) {
      at.state = State::kRefused;
      at.why = refused->second.why;
    }
    at.used = known->second.state->adapters.ReadUse(router::AdapterIdOf(name)).last;
  }
  return all;
}

}  // namespace gateway::control
