#include "router/sim/served_model.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "router/admission/dispatch_plan.h"
#include "router/admission/headroom_search.h"
#include "router/load/occupied.h"
#include "router/pick.h"

namespace router::sim {
namespace {

using conf::Duration;
using conf::TimePoint;
namespace autoscale = scheduler::autoscale;
namespace engine = scheduler::engine;

constexpr size_t kMostHolders = 16;
constexpr Duration kLookEvery = std::chrono::milliseconds(20);  // while requests wait, as in the gateway
constexpr uint64_t kBytesOfToken = 4;                           // of a waiting prompt
constexpr uint64_t kBytesOfRequest = 8 << 10;                   // of a waiting request, beside its prompt
constexpr double kLearnHits = 0.02;  // weight of one prompt in the expected hit ratio

AdmissionSpec WithBandOfLines(AdmissionSpec spec) {
  spec.bands.push_back({.name = "batch", .spare = true});
  return spec;
}

}  // namespace

ServedModel::ServedModel(ServedModelOptions options, std::span<const Request> requests,
                         std::span<const Request> lines, TimePoint begin)
    : options_([&] {
        options.engine.load_time = {};
        return std::move(options);
      }()),
      requests_(requests),
      lines_(lines),
      begin_(begin),
      capacity_(autoscale::CapacityOf(options_.engine)),
      index_({.max_bytes = size_t{64} << 20, .max_members = 4096}),
      states_(&index_),
      queue_(WithBandOfLines(options_.queue.admission)),
      rng_(options_.seed),
      now_(begin),
      next_call_(begin),
      report_(options_.ttft, options_.sample_every) {}

ServedModel::Replica* ServedModel::Find(uint32_t number) const {
  const auto found =
      std::ranges::find_if(replicas_, [&](const auto& replica) { return replica->number == number; });
  return found == replicas_.end() ? nullptr : found->get();
}

uint32_t ServedModel::InFlight(uint32_t number) const {
  const Replica* const replica = Find(number);
  return replica == nullptr ? 0 : static_cast<uint32_t>(replica->there.size());
}

TimePoint ServedModel::Next() const {
  TimePoint next = TimePoint::max();
  if (next_request_ < requests_.size()) next = begin_ + requests_[next_request_].at;
  for (const auto& replica : replicas_) next = std::min(next, replica->model.NextStep());
  if (!held_.empty()) next = std::min(next, next_call_);
  return next;
}

void ServedModel::Add(uint32_t number, TimePoint now) {
  now_ = now;
  auto replica = std::make_unique<Replica>(options_.engine, now);
  replica->number = number;
  replica->identity = options_.name + "/" + std::to_string(number);
  replica->state = states_.Get(replica->identity);
  const engine::Profile& profile = options_.engine;
  replica->state->engine.Configure(
      {.max_running = profile.max_running, .kv_tokens = int64_t{profile.kv_blocks} * profile.block_size});
  index_.SetCapacity(*replica->state->member, profile.kv_blocks);
  replicas_.push_back(std::move(replica));
  RebuildTable();
  CallWaiting();
}

void ServedModel::SetOpen(uint32_t number, bool open, TimePoint now) {
  now_ = now;
  Find(number)->open = open;
  RebuildTable();
}

void ServedModel::Remove(uint32_t number, TimePoint now) {
  now_ = now;
  Replica& replica = *Find(number);
  replica.open = false;
  RebuildTable();
  for (const Id id : std::vector<Id>(replica.there)) {
    replica.model.Cancel(id, now);
    const bool broken = flights_.at(id)->first_token.has_value();
    Leave(replica, id);
    if (IsLine(id)) {
      flights_.erase(id);
      again_.push_back(id);
    } else if (broken) {
      flights_.erase(id);
      ++report_.counts.lost.broken;
    } else {
      ++report_.counts.retried;
      Come(id);
    }
  }
  std::erase_if(replicas_, [&](const auto& one) { return one->number == number; });
}

// As a reload of the gateway does.
void ServedModel::RebuildTable() {
  open_replicas_.clear();
  ModelSpec model;
  model.name = options_.name;
  model.headroom = options_.queue.headroom;
  for (const auto& replica : replicas_) {
    if (!replica->open) continue;
    ReplicaSpec spec;
    spec.identity = replica->identity;
    model.replicas.push_back(std::move(spec));
    open_replicas_.push_back(replica.get());
  }
  load_.reset();
  table_.reset();
  if (open_replicas_.empty()) return;
  auto table = RouteTable::Build({std::move(model)});
  if (!table.ok()) std::abort();
  table_ = std::make_unique<RouteTable>(*std::move(table));
  load_ = std::make_unique<LoadView>(*table_, states_);
  delivered_ = {};
  std::array<PrefixMatch, kMostHolders> matches;
  for (auto& [ticket, held] : held_) held.facts = OwnedPickFacts(FactsOf(held.id, matches));
}

// Telemetry, fresh at each look.
void ServedModel::Deliver() {
  if (delivered_ == now_) return;
  delivered_ = now_;
  for (const Replica* replica : open_replicas_) {
    const engine::Model& model = replica->model;
    EngineSignals& signals = replica->state->engine;
    signals.OnTelemetry({.running = static_cast<double>(model.running()),
                         .waiting = static_cast<double>(model.waiting()),
                         .kv_use = model.kv_use()},
                        signals.charged(now_), now_);
  }
}

PickFacts ServedModel::FactsOf(Id id, std::span<PrefixMatch> matches) const {
  const Request& request = RequestOf(id);
  size_t known = 0;
  if (load_ != nullptr) {
    std::array<prefix::Holder, kMostHolders> holders;
    const size_t held = index_.Find(request.blocks, now_, holders);
    const uint32_t whole = request.prompt_tokens / kBlockTokens * kBlockTokens;
    known = MatchesOf(*load_, std::span(holders).first(held), request.blocks.size(), whole, matches);
  }
  const auto output = static_cast<int64_t>(answers_.mean());
  const auto flight = flights_.find(id);
  return {.tokens = request.prompt_tokens + output,
          .prompt_tokens = request.prompt_tokens,
          .output_tokens = output,
          .max_output = 4 * int64_t{request.output_tokens},
          .cached = matches.first(known),
          .prefer_headroom = flight != flights_.end() && flight->second->was_held,
          .spare = IsLine(id)};
}

void ServedModel::Arrive(Id id) {
  const Request& request = RequestOf(id);
  auto flight = std::make_unique<Flight>();
  const double uncached = request.prompt_tokens * (1 - hits_);
  flight->prefill = uncached * capacity_.prefill_token;
  flight->work =
      autoscale::WorkOf(capacity_, uncached, request.prompt_tokens, answers_.mean(), answers_.written());
  if (!IsLine(id)) arrived_work_ += flight->work;
  flights_.emplace(id, std::move(flight));
  Come(id);
}

// Admits a request as the gateway does (gateway/request/admit.cc), where replicas may start.
void ServedModel::Come(Id id) {
  Duration takes{};
  std::array<PrefixMatch, kMostHolders> matches;
  if (table_ != nullptr) {
    Deliver();
    const DispatchPlan::Advice going =
        DispatchPlan(*table_, ModelId{0}, *load_, now_, rng_).Consider(ModelId{0}, FactsOf(id, matches));
    const bool first = (IsLine(id) ? queue_.waiting() : queue_.urgent()) == 0;
    if (first && going.now && FindHeadroom(*table_, ModelId{0}, *load_, 1, now_).replicas > 0)
      return Send(id);
    takes = going.takes;
  }
  if (held_.empty()) next_call_ = now_ + kLookEvery;
  Flight& flight = *flights_.at(id);
  flight.was_held = true;
  const PickFacts facts = FactsOf(id, matches);
  const double order_delay = options_.queue.shorter_first * conf::ToSeconds(takes);
  const QueuePosition entered =
      queue_.Enter({.tenant = "t",
                    .band = IsLine(id) ? static_cast<uint32_t>(options_.queue.admission.bands.size()) : 0,
                    .cost = static_cast<double>(facts.prompt_tokens + 2 * facts.output_tokens),
                    .bytes = kBytesOfToken * static_cast<uint64_t>(facts.prompt_tokens) + kBytesOfRequest,
                    .deadline = IsLine(id) ? std::nullopt : std::optional(now_ + options_.queue.max_wait),
                    .order_delay = Duration(static_cast<int64_t>(1e9 * order_delay)),
                    .replicas_start = table_ == nullptr},
                   now_);
  if (entered.refused != QueueRefusal::kNone) {
    LostRequests& lost = report_.counts.lost;
    return Refuse(id, entered.refused == QueueRefusal::kTooLate ? lost.too_late : lost.queue_full);
  }
  held_.emplace(entered.ticket, Held{id, OwnedPickFacts(facts)});
  if (IsLine(id)) return;
  ++report_.counts.held;
  waiting_work_ += flight.work;
  CallWaiting();
}

// Each dispatched request is charged before the next one is taken.
void ServedModel::CallWaiting() {
  if (held_.empty()) return;
  if (table_ == nullptr) return DropExpired();
  Deliver();
  while (!held_.empty()) {
    const std::optional<Dispatch> turn = NextDispatch(
        queue_, *table_, ModelId{0}, *load_, 0, true, now_, rng_,
        [&](WaitTicket ticket) { return WaitingRequest{ModelId{0}, &held_.at(ticket).facts.get()}; });
    if (!turn) return;
    const Id id = held_.extract(turn->ticket).mapped().id;
    if (!IsLine(id)) {
      report_.Waited(turn->waited);
      waiting_work_ -= flights_.at(id)->work;
    }
    turn->expired ? Refuse(id, report_.counts.lost.expired) : Send(id);
    queue_.Leave(turn->ticket, now_);
  }
}

void ServedModel::DropExpired() {
  while (const std::optional<Dispatch> turn = queue_.Next(now_, 1, [](WaitTicket) { return false; })) {
    const Id id = held_.extract(turn->ticket).mapped().id;
    if (!IsLine(id)) waiting_work_ -= flights_.at(id)->work;
    Refuse(id, report_.counts.lost.expired);
    queue_.Leave(turn->ticket, now_);
  }
}

void ServedModel::DropWaitingLines() {
  for (auto held = held_.begin(); held != held_.end();) {
    const auto at = held++;
    if (!IsLine(at->second.id)) continue;
    queue_.Leave(at->first, now_);
    flights_.erase(at->second.id);
    held_.erase(at);
    --open_lines_;
  }
}

void ServedModel::Refuse(Id id, uint64_t& count) {
  flights_.erase(id);
  IsLine(id) ? --open_lines_ : ++count;
}

void ServedModel::Send(Id id) {
  const Request& request = RequestOf(id);
  Flight& flight = *flights_.at(id);
  std::array<PrefixMatch, kMostHolders> matches;
  const PickFacts facts = FactsOf(id, matches);
  Decision decision = Pick(*table_, ModelId{0}, *load_, facts, {}, now_, rng_);
  if (!decision.replica) return Refuse(id, report_.counts.lost.no_replica);
  Replica& replica = *open_replicas_[static_cast<size_t>(*decision.replica)];
  const engine::Admission admission = replica.model.Submit({.id = id,
                                                            .prompt_tokens = request.prompt_tokens,
                                                            .output_tokens = request.output_tokens,
                                                            .blocks = request.blocks},
                                                           now_);
  if (admission != engine::Admission::kAccepted) return Refuse(id, report_.counts.lost.engine_refused);
  if (!IsLine(id)) {
    report_.Chosen(decision.cached, facts.cached.empty() ? 0 : facts.cached.front().tokens);
    ++open_;
  }
  index_.Predict(request.blocks, *replica.state->member, now_);
  flight.charge = std::move(decision.charge);
  replica.there.push_back(id);
  delivered_ = {};
}

void ServedModel::SendLines() {
  if (lines_.empty() || next_request_ == requests_.size()) return;
  while (open_lines_ < options_.lines_in_flight) {
    ++open_lines_;
    Id id = requests_.size() + next_line_;
    if (again_.empty()) {
      ++next_line_;
    } else {
      id = again_.front();
      again_.pop_front();
    }
    Arrive(id);
  }
}

void ServedModel::Leave(Replica& replica, Id id) {
  replica.there.erase(std::ranges::find(replica.there, id));
  flights_.at(id)->charge.Release();
  IsLine(id) ? --open_lines_ : --open_;
  delivered_ = {};
}

void ServedModel::CountFirstToken(Id id, const Flight& flight) {
  const Duration took = now_ - (begin_ + requests_[id].at);
  report_.FirstToken(took, now_ - begin_);
  const bool hopeless = flight.prefill > conf::ToSeconds(options_.ttft);
  first_tokens_.came += 1;
  (hopeless ? first_tokens_.hopeless : first_tokens_.late) += hopeless || took > options_.ttft ? 1 : 0;
}

void ServedModel::OnEvent(Replica& replica, const engine::Event& event) {
  const Id id = event.id;
  const Request& request = RequestOf(id);
  Flight& flight = *flights_.at(id);
  replica.state->engine.OnToken(now_);
  if (event.first || (event.finished && !flight.first_token)) {
    flight.first_token = now_;
    flight.charge.FirstToken(now_);
    flight.charge.Report(Outcome::kGood, now_);
    flight.charge.Hold(request.blocks, now_);
    hits_ += kLearnHits * (static_cast<double>(event.cached_tokens) / request.prompt_tokens - hits_);
    if (!IsLine(id)) {
      CountFirstToken(id, flight);
      report_.Prompt(request.prompt_tokens, event.cached_tokens);
    }
  }
  if (!event.finished) return;
  flight.charge.LastToken(event.generated, now_);
  if (!IsLine(id)) {
    report_.LastToken(now_ - (begin_ + request.at), now_ - *flight.first_token, event.generated);
  } else if (next_request_ < requests_.size()) {
    Report::Spare& spare = report_.counts.spare;
    ++spare.finished;
    spare.prompt_tokens += request.prompt_tokens;
    spare.output_tokens += event.generated;
  }
  answers_.Add(event.generated);
  Leave(replica, id);
  flights_.erase(id);
}

void ServedModel::Advance(TimePoint now) {
  now_ = now;
  bool room = false;
  for (const auto& replica : replicas_) {
    if (replica->model.NextStep() > now_) continue;
    events_.clear();
    replica->model.Step(now_, events_);
    for (const engine::Event& event : events_) OnEvent(*replica, event);
    room |= std::ranges::any_of(events_, [](const engine::Event& e) { return e.first || e.finished; });
    delivered_ = {};
  }
  if (room) CallWaiting();
  while (next_request_ < requests_.size() && begin_ + requests_[next_request_].at <= now_) {
    Arrive(next_request_++);
    if (next_request_ == requests_.size()) DropWaitingLines();
  }
  SendLines();
  if (held_.empty() || now_ < next_call_) return;
  CallWaiting();
  next_call_ = now_ + kLookEvery;
}

autoscale::Signals ServedModel::TakeSignals(Duration passed, TimePoint now) {
  now_ = now;
  autoscale::Signals signals;
  signals.demand.work = std::exchange(arrived_work_, 0) / conf::ToSeconds(passed);
  signals.demand.first_tokens = std::exchange(first_tokens_, {});
  Deliver();
  for (const Replica* replica : open_replicas_)
    signals.demand.occupied +=
        OccupiedOf(replica->state->engine, capacity_, options_.queue.headroom, options_.inter_token, now);
  signals.held = waiting();
  signals.in_flight = static_cast<double>(open_) + signals.held;
  if (signals.held == 0) {
    waiting_work_ = 0;
    return signals;
  }
  signals.demand.backlog = waiting_work_;
  signals.demand.oldest = OldestWaiting(now);
  return signals;
}

Duration ServedModel::OldestWaiting(TimePoint now) const {
  Duration oldest{};
  for (const BandState& band : queue_.Bands(now)) {
    if (!band.spare) oldest = std::max(oldest, band.oldest);
  }
  return oldest;
}

Duration ServedModel::OldestLine(TimePoint now) const {
  if (queue_.waiting() == queue_.urgent()) return {};
  Duration oldest{};
  for (const BandState& band : queue_.Bands(now)) {
    if (band.spare) oldest = std::max(oldest, band.oldest);
  }
  return oldest;
}

Report ServedModel::MakeReport(TimePoint now) {
  return report_.Build(requests_.size(), now - begin_);
}

}  // namespace router::sim
