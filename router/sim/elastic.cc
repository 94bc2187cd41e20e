#include "router/sim/elastic.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "router/admission/headroom_search.h"
#include "router/pick.h"
#include "router/sim/late_last.h"
#include "router/sim/quantiles.h"
#include "scheduler/autoscale/autoscaler.h"
#include "scheduler/autoscale/capacity.h"

namespace router::sim {
namespace {

using conf::Duration;
using conf::TimePoint;
using scheduler::autoscale::ReplicaPhase;
namespace autoscale = scheduler::autoscale;
namespace engine = scheduler::engine;

constexpr size_t kHolders = 16;
constexpr Duration kFlap = std::chrono::minutes(5);
constexpr size_t kTellEvery = 500;  // requests
constexpr double kLearn = 0.02;     // weight of one prompt in the expected hit ratio
constexpr std::string_view kModel = "m";

class ElasticPool {
 public:
  ElasticPool(const ElasticOptions& options, std::span<const Request> requests)
      : options_(options),
        requests_(requests),
        capacity_(autoscale::CapacityOf(options.engine)),
        autoscaler_(options.policy),
        index_({.max_bytes = size_t{64} << 20, .max_members = 4096}),
        states_(&index_),
        queue_(options.policy.ttft, options.policy.hold),
        rng_(options.seed),
        series_(options.sample_every),
        flights_(requests.size()),
        begin_(options.begins_at),
        now_(begin_),
        next_tick_(begin_) {
    options_.engine.load_time = {};
    for (uint32_t i = 0; i < options.initial; ++i) Launch(Duration());
  }

  ElasticReport Run(const std::function<bool(size_t)>& keep_going);

 private:
  struct Slot {
    uint32_t id = 0;
    std::string identity;
    ReplicaPhase phase = ReplicaPhase::kPending;
    TimePoint launched{};
    TimePoint since{};  // of the phase
    TimePoint ready_at{};
    std::unique_ptr<engine::Model> model{};  // from ready on
    std::shared_ptr<ReplicaState> state{};
    std::vector<uint32_t> there{};  // requests
  };
  struct Flight {
    Charge charge;
    std::optional<TimePoint> dispatched;  // when it left the queue
    std::optional<TimePoint> first_token;
    double work = 0;     // estimated seconds of a replica
    double prefill = 0;  // of these, until its first token
  };

  TimePoint Arrival(uint32_t request) const { return begin_ + requests_[request].at; }
  double Prefill(uint32_t request) const {
    return requests_[request].prompt_tokens * capacity_.prefill_token;
  }
  TimePoint Next() const;
  void Launch(Duration cold_start);
  void Stop(size_t slot);
  void BecomeReady(Slot& slot);
  void RebuildTable();
  bool HasHeadroomSomewhere();
  void Arrive(uint32_t request);
  void DispatchWaiting();
  void DropExpired();
  bool Dispatch(uint32_t request);
  void CountFirstToken(uint32_t request, bool late);
  void OnEvent(Slot& slot, const engine::Event& event);
  void Tick();
  double Occupied() const;
  autoscale::Decision Decide();
  void Apply(const autoscale::Decision& decision);
  void CountChange(const autoscale::Decision& decision);
  void Finish();

  ElasticOptions options_;
  std::span<const Request> requests_;
  autoscale::Capacity capacity_;
  autoscale::Autoscaler autoscaler_;
  prefix::Index index_;
  ReplicaStates states_;
  LateLast queue_;
  scheduler::Rng rng_;
  ElasticSeries series_;
  std::vector<Flight> flights_;
  TimePoint begin_;
  TimePoint now_;
  TimePoint next_tick_;

  std::vector<std::unique_ptr<Slot>> slots_;  // all that have not stopped
  std::vector<Slot*> serving_;                // by ReplicaId of the table
  std::unique_ptr<RouteTable> table_;         // of serving_; null: none serves
  std::unique_ptr<LoadView> load_;
  uint32_t last_id_ = 0;
  size_t next_request_ = 0;
  uint64_t open_ = 0;                      // requests at replicas
  double arrived_work_ = 0;                // seconds of a replica, since the last tick
  autoscale::FirstTokens first_tokens_{};  // likewise
  autoscale::AnswerSizes answers_{256};
  double hits_ = 0;
  std::optional<TimePoint> last_down_;
  std::vector<double> wait_, ttft_, token_time_;
  uint64_t first_in_time_ = 0, tokens_in_time_ = 0, both_in_time_ = 0;
  ElasticReport report_;
};

TimePoint ElasticPool::Next() const {
  TimePoint next = next_tick_;
  if (next_request_ < requests_.size()) next = std::min(next, Arrival(static_cast<uint32_t>(next_request_)));
  for (const auto& slot : slots_) {
    if (slot->model) next = std::min(next, slot->model->NextStep());
    if (slot->phase == ReplicaPhase::kPending) next = std::min(next, slot->ready_at);
  }
  return next;
}

void ElasticPool::Launch(Duration cold_start) {
  auto slot = std::make_unique<Slot>();
  slot->id = ++last_id_;
  slot->identity = std::string(kModel) + "/" + std::to_string(slot->id);
  slot->launched = slot->since = now_;
  slot->ready_at = now_ + cold_start;
  slots_.push_back(std::move(slot));
  ++report_.launches;
  report_.most_replicas = std::max(report_.most_replicas, static_cast<uint32_t>(slots_.size()));
}

void ElasticPool::Stop(size_t at) {
  report_.replica_seconds += conf::ToSeconds(now_ - slots_[at]->launched);
  slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(at));
}

void ElasticPool::BecomeReady(Slot& slot) {
  slot.phase = ReplicaPhase::kReady;
  slot.since = now_;
  slot.model = std::make_unique<engine::Model>(options_.engine, now_);
  slot.state = states_.Get(slot.identity);
  const engine::Profile& profile = options_.engine;
  slot.state->engine.Configure(
      {.max_running = profile.max_running, .kv_tokens = int64_t{profile.kv_blocks} * profile.block_size});
  index_.SetCapacity(*slot.state->member, profile.kv_blocks);
}

// Rebuilds the route table from the ready replicas, as a reload of the gateway does.
void ElasticPool::RebuildTable() {
  serving_.clear();
  ModelSpec model;
  model.name = kModel;
  model.headroom = HeadroomLimits{};
  for (const auto& slot : slots_) {
    if (slot->phase != ReplicaPhase::kReady) continue;
    ReplicaSpec replica;
    replica.identity = slot->identity;
    model.replicas.push_back(std::move(replica));
    serving_.push_back(slot.get());
  }
  load_.reset();
  table_.reset();
  if (serving_.empty()) return;
  auto table = RouteTable::Build({std::move(model)});
  if (!table.ok()) std::abort();
  table_ = std::make_unique<RouteTable>(*std::move(table));
  load_ = std::make_unique<LoadView>(*table_, states_);
}

bool ElasticPool::HasHeadroomSomewhere() {
  return table_ && FindHeadroom(*table_, ModelId{0}, *load_, 1, now_).replicas > 0;
}

bool ElasticPool::Dispatch(uint32_t at) {
  const Request& request = requests_[at];
  std::array<prefix::Holder, kHolders> holders;
  std::array<PrefixMatch, kHolders> matches;
  const size_t held = index_.Find(request.blocks, now_, holders);
  const uint32_t whole = request.prompt_tokens / kBlockTokens * kBlockTokens;
  const size_t known =
      MatchesOf(*load_, std::span(holders).first(held), request.blocks.size(), whole, matches);
  const PickFacts facts{
      .tokens = request.prompt_tokens + static_cast<int64_t>(answers_.mean()),
      .prompt_tokens = request.prompt_tokens,
      .output_tokens = static_cast<int64_t>(answers_.mean()),
      .max_output = 4 * int64_t{request.output_tokens},
      .cached = std::span(matches).first(known),
      .prefer_headroom = true,
  };
  Decision decision = Pick(*table_, ModelId{0}, *load_, facts, {}, now_, rng_);
  if (!decision.replica) return false;
  Slot& slot = *serving_[static_cast<size_t>(*decision.replica)];
  const engine::Admission admission = slot.model->Submit({.id = at,
                                                          .prompt_tokens = request.prompt_tokens,
                                                          .output_tokens = request.output_tokens,
                                                          .blocks = request.blocks},
                                                         now_);
  if (admission != engine::Admission::kAccepted) return false;
  index_.Predict(request.blocks, *slot.state->member, now_);
  flights_[at].charge = std::move(decision.charge);
  slot.there.push_back(at);
  ++open_;
  return true;
}

void ElasticPool::Arrive(uint32_t at) {
  const Request& request = requests_[at];
  const double uncached = request.prompt_tokens * (1 - hits_);
  flights_[at].prefill = uncached * capacity_.prefill_token;
  flights_[at].work =
      autoscale::WorkOf(capacity_, uncached, request.prompt_tokens, answers_.mean(), answers_.written());
  arrived_work_ += flights_[at].work;
  series_.Arrived(flights_[at].work);
  if (queue_.size() == 0 && HasHeadroomSomewhere()) {
    if (!Dispatch(at)) ++report_.lost.engine_refused;
    return;
  }
  const double cost = request.prompt_tokens + 2 * answers_.mean();
  const bool waits = queue_.Enter({.request = at,
                                   .arrived = Arrival(at),
                                   .work = flights_[at].work,
                                   .prefill = Prefill(at),
                                   .cost = cost},
                                  now_);
  ++(waits ? report_.held : report_.lost.too_late);
}

void ElasticPool::DispatchWaiting() {
  queue_.MoveLate(now_);
  while (queue_.size() > 0 && HasHeadroomSomewhere()) {
    const std::optional<LateLast::Called> called = queue_.Next(now_);
    if (!called) return;
    const uint32_t at = called->who.request;
    wait_.push_back(conf::ToSeconds(now_ - Arrival(at)));
    flights_[at].dispatched = now_;
    if (called->expired) {
      ++report_.lost.expired;
    } else if (!Dispatch(at)) {
      ++report_.lost.engine_refused;
    }
    queue_.Leave(called->ticket, now_);
  }
}

void ElasticPool::DropExpired() {
  queue_.DropExpired(now_, [this](const Waiting& who) {
    wait_.push_back(conf::ToSeconds(now_ - who.arrived));
    ++report_.lost.expired;
  });
}

void ElasticPool::OnEvent(Slot& slot, const engine::Event& event) {
  const auto at = static_cast<uint32_t>(event.id);
  const Request& request = requests_[at];
  Flight& flight = flights_[at];
  slot.state->engine.OnToken(now_);
  if (event.first || (event.finished && !flight.first_token)) {
    flight.first_token = now_;
    flight.charge.FirstToken(now_);
    flight.charge.Report(Outcome::kGood, now_);
    index_.Confirm(request.blocks, *slot.state->member, now_);
    ttft_.push_back(conf::ToSeconds(now_ - Arrival(at)));
    if (flight.dispatched)
      queue_.LearnBesidePrefill(conf::ToSeconds(now_ - *flight.dispatched) - Prefill(at));
    const bool late = now_ - Arrival(at) > options_.policy.ttft;
    series_.FirstToken(ttft_.back(), late);
    CountFirstToken(at, late);
    hits_ += kLearn * (static_cast<double>(event.cached_tokens) / request.prompt_tokens - hits_);
  }
  if (!event.finished) return;
  flight.charge.LastToken(event.generated, now_);
  double token_time = 0;
  if (event.generated > 1) {
    token_time = conf::ToSeconds(now_ - *flight.first_token) / (event.generated - 1);
    token_time_.push_back(token_time);
  }
  const bool first_in_time = *flight.first_token - Arrival(at) <= options_.policy.ttft;
  const bool tokens_in_time = token_time <= conf::ToSeconds(options_.policy.inter_token);
  first_in_time_ += first_in_time ? 1 : 0;
  tokens_in_time_ += tokens_in_time ? 1 : 0;
  both_in_time_ += first_in_time && tokens_in_time ? 1 : 0;
  answers_.Add(event.generated);
  ++report_.finished;
  slot.there.erase(std::ranges::find(slot.there, at));
  flight.charge.Release();
  --open_;
}

// Counts a first token for the autoscaler, by the expected prefill as the gateway does.
void ElasticPool::CountFirstToken(uint32_t at, bool late) {
  const bool hopeless = flights_[at].prefill > conf::ToSeconds(options_.policy.ttft);
  first_tokens_.came += 1;
  (hopeless ? first_tokens_.hopeless : first_tokens_.late) += hopeless || late ? 1 : 0;
}

double ElasticPool::Occupied() const {
  double sum = 0;
  for (const Slot* slot : serving_) {
    const auto running = static_cast<double>(slot->model->running());
    const double context = slot->model->kv_use() * capacity_.kv_tokens / std::max(running, 1.0);
    const double most = autoscale::MostInTime(capacity_, context, options_.policy.inter_token);
    sum += std::max(running / most, slot->model->kv_use());
  }
  return sum;
}

autoscale::Decision ElasticPool::Decide() {
  const autoscale::Signals signals{
      .demand = {.work = arrived_work_ / conf::ToSeconds(options_.tick),
                 .backlog = queue_.work(),
                 .oldest = queue_.oldest(now_),
                 .occupied = Occupied(),
                 .first_tokens = std::exchange(first_tokens_, {})},
      .in_flight = static_cast<double>(open_) + static_cast<double>(queue_.size()),
      .held = static_cast<double>(queue_.size())};
  arrived_work_ = 0;
  std::vector<autoscale::ReplicaView> views;
  views.reserve(slots_.size());
  for (const auto& slot : slots_) {
    views.push_back({slot->id, slot->phase, slot->since, static_cast<uint32_t>(slot->there.size())});
  }
  if (options_.plan.empty()) return autoscaler_.Tick(signals, views, options_.cold_start, now_);
  const auto second = static_cast<size_t>((now_ - begin_) / std::chrono::seconds(1));
  const uint32_t planned = options_.plan[std::min(second, options_.plan.size() - 1)];
  autoscale::ScalingPolicy policy;
  policy.law = autoscale::Law::kSchedule;
  policy.min = policy.max = planned;
  return autoscale::Autoscaler(std::move(policy)).Tick(signals, views, options_.cold_start, now_);
}

void ElasticPool::CountChange(const autoscale::Decision& decision) {
  if (decision.start > 0 || !decision.take_back.empty()) {
    ++report_.ups;
    if (last_down_ && now_ - *last_down_ <= kFlap) ++report_.flaps;
    last_down_.reset();
  }
  if (!decision.drain.empty() || !decision.cancel.empty()) {
    ++report_.downs;
    last_down_ = now_;
  }
  report_.taken_back += static_cast<uint32_t>(decision.take_back.size());
  report_.failed_starts += static_cast<uint32_t>(decision.failed.size());
}

void ElasticPool::Apply(const autoscale::Decision& decision) {
  CountChange(decision);
  const auto among = [](const std::vector<uint32_t>& ids, uint32_t id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  for (size_t i = slots_.size(); i-- > 0;) {
    Slot& slot = *slots_[i];
    if (among(decision.cancel, slot.id) || among(decision.failed, slot.id)) {
      Stop(i);
    } else if (among(decision.drain, slot.id)) {
      slot.phase = ReplicaPhase::kDraining;
      slot.since = now_;
    } else if (among(decision.take_back, slot.id)) {
      slot.phase = ReplicaPhase::kReady;
      slot.since = now_;
    }
  }
  for (uint32_t i = 0; i < decision.start; ++i) Launch(options_.cold_start);
}

void ElasticPool::Tick() {
  DropExpired();
  const autoscale::Decision decision = Decide();
  Apply(decision);
  if (!decision.drain.empty() || !decision.take_back.empty()) RebuildTable();
  const auto pending = [](const auto& slot) { return slot->phase == ReplicaPhase::kPending; };
  queue_.SetStarting(std::ranges::any_of(slots_, pending));
  ElasticSample state{.demand = decision.demand, .held = static_cast<uint32_t>(queue_.size())};
  for (const auto& slot : slots_) {
    ++(slot->phase == ReplicaPhase::kReady      ? state.ready
       : slot->phase == ReplicaPhase::kDraining ? state.draining
                                                : state.coming);
  }
  series_.Tick(now_ - begin_, state);
}

void ElasticPool::Finish() {
  while (!slots_.empty()) Stop(slots_.size() - 1);
  report_.requests = requests_.size();
  report_.refused = report_.lost.refused();
  report_.samples = series_.Take();
  report_.wait = QuantilesOf(wait_);
  report_.longest_wait = wait_.empty() ? 0 : wait_.back();  // sorted by now
  report_.ttft = QuantilesOf(ttft_);
  report_.token_time = QuantilesOf(token_time_);
  const double all = std::max(1.0, static_cast<double>(report_.requests));
  report_.ttft_attained = static_cast<double>(first_in_time_) / all;
  report_.tokens_attained = static_cast<double>(tokens_in_time_) / all;
  report_.attained = static_cast<double>(both_in_time_) / all;
  report_.seconds = conf::ToSeconds(now_ - begin_);
  if (report_.seconds > 0) report_.mean_replicas = report_.replica_seconds / report_.seconds;
}

ElasticReport ElasticPool::Run(const std::function<bool(size_t)>& keep_going) {
  std::vector<engine::Event> events;
  size_t told = 0;
  while (next_request_ < requests_.size() || open_ > 0 || queue_.size() > 0) {
    now_ = Next();
    bool changed = false;
    for (const auto& slot : slots_) {
      if (slot->phase != ReplicaPhase::kPending || slot->ready_at > now_) continue;
      BecomeReady(*slot);
      changed = true;
    }
    if (changed) RebuildTable();
    for (size_t i = slots_.size(); i-- > 0;) {
      Slot& slot = *slots_[i];
      if (slot.model && slot.model->NextStep() <= now_) {
        events.clear();
        slot.model->Step(now_, events);
        for (const engine::Event& event : events) OnEvent(slot, event);
      }
      if (slot.phase == ReplicaPhase::kDraining && slot.there.empty()) Stop(i);
    }
    DispatchWaiting();
    while (next_request_ < requests_.size() && Arrival(static_cast<uint32_t>(next_request_)) <= now_) {
      Arrive(static_cast<uint32_t>(next_request_++));
    }
    if (now_ >= next_tick_) {
      Tick();
      next_tick_ += options_.tick;
    }
    if (keep_going && next_request_ >= told + kTellEvery) {
      told = next_request_;
      if (!keep_going(told)) return report_;
    }
  }
  Finish();
  return report_;
}

}  // namespace

ElasticReport SimulateElastic(const ElasticOptions& options, std::span<const Request> requests,
                              const std::function<bool(size_t arrived)>& keep_going) {
  return ElasticPool(options, requests).Run(keep_going);
}

}  // namespace router::sim
