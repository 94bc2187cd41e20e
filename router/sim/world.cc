#include "router/sim/world.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "router/admission/dispatch_plan.h"
#include "router/admission/headroom_search.h"
#include "router/outlier_detection.h"
#include "router/prefill_transfer.h"

namespace router::sim {
namespace {

using conf::Duration;
using conf::TimePoint;
namespace engine = scheduler::engine;

constexpr TimePoint kBegin{std::chrono::seconds(1'000'000)};
constexpr size_t kHoldersOfPrefix = 16;
constexpr uint32_t kAffinityTokens = 256;
constexpr Duration kTick = std::chrono::seconds(1);
constexpr Duration kCallEvery = std::chrono::milliseconds(20);  // while requests wait, as in the gateway
constexpr uint64_t kTokenBytes = 4;                             // of a waiting prompt
constexpr uint64_t kFootprint = 8 << 10;                        // of a waiting request, beside its prompt
constexpr size_t kTellProgressEvery = 100;                      // requests

std::string AdapterName(uint32_t adapter) {
  return "a" + std::to_string(adapter);
}

RouteTable MakeTable(const Options& options) {
  ModelSpec model;
  model.name = "m";
  model.policy = options.policy;
  model.cost = options.cost;
  model.outliers.hung_after = options.hung_after;
  if (options.prefills > 0) model.prefill_transfer = options.prefill_transfer;
  if (options.queue) model.headroom = options.queue->headroom;
  for (size_t i = 0; i < options.replicas.size(); ++i) {
    ReplicaSpec replica;
    replica.identity = "m/" + std::to_string(i);
    if (options.prefills > 0) replica.role = i < options.prefills ? Role::kPrefill : Role::kDecode;
    model.replicas.push_back(std::move(replica));
  }
  std::vector<ModelSpec> models{std::move(model)};
  for (uint32_t adapter = 1; adapter <= options.adapters; ++adapter) {
    ModelSpec& of = models.emplace_back();
    of.name = of.adapter = AdapterName(adapter);
    of.base = models.front().name;
    of.policy = options.policy;
    of.cost = options.cost;
    of.headroom = models.front().headroom;
  }
  auto table = RouteTable::Build(std::move(models));
  if (!table.ok()) std::abort();
  return *std::move(table);
}

// The others first, then the lines; nothing without lines.
std::vector<Request> WithSpare(const Options& options, std::span<const Request> requests) {
  if (!options.spare) return {};
  std::vector<Request> all(requests.begin(), requests.end());
  all.insert(all.end(), options.spare->lines.begin(), options.spare->lines.end());
  return all;
}

AdmissionSpec AdmissionOf(const Options& options) {
  AdmissionSpec spec = options.queue ? options.queue->admission : AdmissionSpec();
  if (options.spare) spec.bands.push_back({.name = "spare", .spare = true});
  return spec;
}

class PoolSimulation {
 public:
  PoolSimulation(const Options& options, std::span<const Request> requests)
      : options_(options),
        own_(WithSpare(options, requests)),
        requests_(own_.empty() ? requests : std::span<const Request>(own_)),
        urgent_(requests.size()),
        table_(MakeTable(options)),
        index_({.max_bytes = size_t{64} << 20, .max_members = 1024}),
        states_(&index_),
        load_(table_, states_),
        queue_(AdmissionOf(options)),
        rng_(options.seed),
        flights_(requests_.size()),
        report_(options.slo, options.sample_every) {
    for (const engine::Profile& profile : options.replicas) {
      engine::Profile loaded = profile;
      loaded.load_time = {};
      engines_.emplace_back(loaded);
      const auto id = static_cast<ReplicaId>(engines_.size() - 1);
      load_[id].engine.Configure(
          {.max_running = profile.max_running, .kv_tokens = int64_t{profile.kv_blocks} * profile.block_size});
      index_.SetCapacity(*load_[id].member, profile.kv_blocks);
      if (!options.kv_events) continue;
      index_.SetReporting(*load_[id].member, true);
      engines_.back().model.RecordKvChangesTo(&engines_.back().changes);
    }
    std::ranges::sort(options_.faults, {}, &Fault::at);
  }

  Report Run(const std::function<bool(size_t)>& keep_going);

 private:
  struct SimulatedReplica {
    explicit SimulatedReplica(engine::Profile profile) : model(std::move(profile), kBegin) {}

    engine::Model model;
    bool dead = false;
    bool hung = false;
    std::vector<uint32_t> there = {};            // requests
    uint64_t computed = 0;                       // prompt tokens
    std::vector<engine::KvChange> changes = {};  // of its cache, where it reports them
  };
  struct Flight {
    Charge charge;
    Charge prefill;                    // while its prompt is computed elsewhere
    std::optional<size_t> answers_at;  // the answering replica, until the prompt has arrived there
    bool remote_prefill = false;
    bool was_held = false;  // at the gateway
    std::vector<ReplicaId> tried;
    std::optional<TimePoint> first_token;
  };
  struct Held {
    uint32_t request = 0;
    OwnedPickFacts facts;
  };
  struct Sample {
    TimePoint at;
    std::vector<std::pair<Telemetry, EngineSignals::Charged>> replicas;
    std::vector<std::vector<std::string>> adapters;  // in use, by replica; empty without adapters
  };

  // Whether the answer is not streamed: evenly spread, the same requests under every policy.
  bool ComesWhole(uint32_t index) const {
    return std::floor((index + 1) * options_.whole) > std::floor(index * options_.whole);
  }
  bool IsSpare(uint32_t index) const { return index >= urgent_; }
  void Refuse(uint32_t index, uint64_t& count);  // counts it there
  void SendLines();
  void DropLines();
  EngineSignals& signals(size_t replica) { return load_[static_cast<ReplicaId>(replica)].engine; }
  TimePoint Next() const;
  void TakeSample();
  void Deliver();
  void Come(uint32_t index);
  size_t MatchesFor(uint32_t index, std::span<PrefixMatch> matches);
  PickFacts FactsOf(uint32_t index, std::span<const PrefixMatch> matches) const;
  void CallWaiting();
  void Send(uint32_t index);
  void OnEvent(size_t replica, const engine::Event& event);
  void TakeKvEvents(size_t replica);
  void Strike(const Fault& fault);
  void Tick();
  void FailRequests(size_t replica);
  void Leave(size_t replica, uint32_t index);
  std::vector<uint64_t> WithAnswer(uint32_t index, uint32_t output_tokens) const;
  bool Begin(size_t replica, uint32_t index, uint32_t output_tokens, uint32_t given_tokens);
  void OnPrefilled(size_t replica, uint32_t index, const engine::Event& event);
  void Arrive(uint32_t index);
  void CountPrompt(size_t replica, uint32_t index, uint32_t cached);
  Report Made();

  Options options_;
  const std::vector<Request> own_;
  std::span<const Request> requests_;
  const size_t urgent_;  // the requests before the lines
  RouteTable table_;
  prefix::Index index_;
  ReplicaStates states_;
  LoadView load_;
  AdmissionQueue queue_;
  absl::flat_hash_map<WaitTicket, Held> held_;
  scheduler::Rng rng_;
  std::deque<SimulatedReplica> engines_;
  std::vector<Flight> flights_;
  std::deque<Sample> samples_;
  std::multimap<TimePoint, uint32_t> on_the_way_;  // transferred prompts, by arrival
  TimePoint now_ = kBegin;
  TimePoint next_sample_ = kBegin;
  TimePoint next_tick_ = kBegin + kTick;
  TimePoint next_call_ = kBegin;
  size_t next_request_ = 0;
  size_t next_fault_ = 0;
  uint64_t open_ = 0;        // requests in flight
  size_t next_line_ = 0;     // among the lines
  uint64_t open_lines_ = 0;  // in flight or held
  double expected_output_ = 256;
  ReportBuilder report_;
};

TimePoint PoolSimulation::Next() const {
  TimePoint next = TimePoint::max();
  if (next_request_ < urgent_) next = kBegin + requests_[next_request_].at;
  for (const SimulatedReplica& replica : engines_) {
    if (!replica.dead && !replica.hung) next = std::min(next, replica.model.NextStep());
  }
  if (options_.telemetry_age > Duration::zero()) next = std::min(next, next_sample_);
  if (next_fault_ < options_.faults.size()) next = std::min(next, kBegin + options_.faults[next_fault_].at);
  if (!options_.faults.empty()) next = std::min(next, next_tick_);
  if (!on_the_way_.empty()) next = std::min(next, on_the_way_.begin()->first);
  if (!held_.empty()) next = std::min(next, next_call_);
  return next;
}

void PoolSimulation::TakeSample() {
  Sample sample{now_, {}, {}};
  for (size_t i = 0; i < engines_.size(); ++i) {
    const engine::Model& model = engines_[i].model;
    sample.replicas.emplace_back(
        Telemetry{static_cast<double>(model.running()), static_cast<double>(model.waiting()), model.kv_use()},
        signals(i).charged(now_));
    if (options_.adapters == 0) continue;
    std::vector<std::string>& in_use = sample.adapters.emplace_back();
    for (const uint32_t adapter : model.adapters().InUse()) in_use.push_back(AdapterName(adapter));
  }
  samples_.push_back(std::move(sample));
}

void PoolSimulation::Deliver() {
  if (options_.telemetry_age == Duration::zero()) TakeSample();
  while (!samples_.empty() && samples_.front().at + options_.telemetry_age <= now_) {
    for (size_t i = 0; i < engines_.size(); ++i) {
      if (engines_[i].dead) continue;
      const auto& [telemetry, then] = samples_.front().replicas[i];
      signals(i).OnTelemetry(telemetry, then, now_);
      if (options_.adapters == 0) continue;
      load_[static_cast<ReplicaId>(i)].adapters.OnReport(
          {.in_use = samples_.front().adapters[i], .slots = options_.replicas[i].max_loras, .started_at = 0},
          now_);
    }
    samples_.pop_front();
  }
}

size_t PoolSimulation::MatchesFor(uint32_t index, std::span<PrefixMatch> matches) {
  const Request& request = requests_[index];
  std::array<prefix::Holder, kHoldersOfPrefix> holders;
  const size_t held = index_.Find(request.blocks, now_, holders);
  const uint32_t whole = request.prompt_tokens / kBlockTokens * kBlockTokens;
  return MatchesOf(load_, std::span(holders).first(held), request.blocks.size(), whole, matches);
}

PickFacts PoolSimulation::FactsOf(uint32_t index, std::span<const PrefixMatch> matches) const {
  const Request& request = requests_[index];
  const size_t affinity = std::min<size_t>(kAffinityTokens / kBlockTokens, request.blocks.size());
  return {
      .tokens = request.prompt_tokens + static_cast<int64_t>(expected_output_),
      .prompt_tokens = request.prompt_tokens,
      .output_tokens = static_cast<int64_t>(expected_output_),
      .not_streamed = ComesWhole(index),
      .max_output = 4 * int64_t{request.output_tokens},
      .affinity = affinity > 0 ? request.blocks[affinity - 1] : 0,
      .cached = matches,
      .may_split = true,
      .prefer_headroom = flights_[index].was_held,
      .spare = IsSpare(index) && options_.spare->only_spare,
  };
}

// Admits an arriving request as the gateway does (gateway/request/admit.cc), except that adapters have no
// queues of their own.
void PoolSimulation::Come(uint32_t index) {
  if (!options_.queue) return Send(index);
  Deliver();
  std::array<PrefixMatch, kHoldersOfPrefix> matches;
  const PickFacts facts = FactsOf(index, std::span(matches).first(MatchesFor(index, matches)));
  const DispatchPlan::Advice going =
      DispatchPlan(table_, ModelId{0}, load_, now_, rng_).Consider(ModelId{requests_[index].adapter}, facts);
  if (held_.empty()) next_call_ = now_ + kCallEvery;
  if ((IsSpare(index) ? queue_.waiting() : queue_.urgent()) == 0) {
    const HeadroomFound found = FindHeadroom(table_, ModelId{0}, load_, 1, now_);
    if (!found.expected() || (found.replicas > 0 && going.now)) return Send(index);
  }
  const double order_delay = options_.queue->shorter_first * conf::ToSeconds(going.takes);
  const QueuePosition entered = queue_.Enter(
      {.tenant = "t",
       .band = IsSpare(index) ? static_cast<uint32_t>(options_.queue->admission.bands.size()) : 0,
       .cost = static_cast<double>(facts.prompt_tokens + 2 * facts.output_tokens),
       .bytes = kTokenBytes * static_cast<uint64_t>(facts.prompt_tokens) + kFootprint,
       .deadline = IsSpare(index) ? std::nullopt : std::optional(now_ + options_.queue->max_wait),
       .order_delay = Duration(static_cast<int64_t>(1e9 * order_delay))},
      now_);
  if (entered.refused != QueueRefusal::kNone) {
    LostRequests& lost = report_.counts.lost;
    Refuse(index, entered.refused == QueueRefusal::kTooLate ? lost.too_late : lost.queue_full);
    return;
  }
  held_.emplace(entered.ticket, Held{index, OwnedPickFacts(facts)});
  if (!IsSpare(index)) ++report_.counts.held;
  flights_[index].was_held = true;
  CallWaiting();
}

// Each dispatched request is charged before the next one is taken.
void PoolSimulation::CallWaiting() {
  if (held_.empty()) return;
  Deliver();
  while (!held_.empty()) {
    const std::optional<Dispatch> turn =
        NextDispatch(queue_, table_, ModelId{0}, load_, 0, false, now_, rng_, [&](WaitTicket ticket) {
          const Held& held = held_.at(ticket);
          return WaitingRequest{ModelId{requests_[held.request].adapter}, &held.facts.get()};
        });
    if (!turn) return;
    const auto held = held_.find(turn->ticket);
    const uint32_t index = held->second.request;
    held_.erase(held);
    if (!IsSpare(index)) report_.Waited(turn->waited);
    if (turn->expired) {
      Refuse(index, report_.counts.lost.expired);
      continue;
    }
    Send(index);
    queue_.Leave(turn->ticket, now_);
  }
}

void PoolSimulation::Send(uint32_t index) {
  const Request& request = requests_[index];
  Flight& flight = flights_[index];
  std::array<PrefixMatch, kHoldersOfPrefix> matches;
  while (true) {
    Deliver();
    const size_t known = MatchesFor(index, matches);
    const PickFacts facts = FactsOf(index, std::span(matches).first(known));
    ReplicaPair pair =
        PickReplicaPair(table_, ModelId{request.adapter}, load_, facts, flight.tried, {}, now_, rng_);
    Decision& decision = pair.answer;
    if (!decision.replica || flight.tried.size() > options_.max_retries) {
      Refuse(index, report_.counts.lost.no_replica);
      return;
    }
    const auto at = static_cast<size_t>(*decision.replica);
    SimulatedReplica& replica = engines_[at];
    flight.tried.push_back(*decision.replica);
    if (flight.tried.size() > 1) ++report_.counts.retried;
    if (replica.dead) {
      decision.charge.Report(Outcome::kBad, now_);
      continue;
    }
    flight.remote_prefill = pair.prefill.replica.has_value();
    Decision& computes = flight.remote_prefill ? pair.prefill : decision;
    const auto computes_at = static_cast<size_t>(*computes.replica);
    if (engines_[computes_at].dead) {
      computes.charge.Report(Outcome::kBad, now_);
      continue;
    }
    if (!Begin(computes_at, index, flight.remote_prefill ? 1 : request.output_tokens, 0)) {
      Refuse(index, report_.counts.lost.engine_refused);
      return;
    }
    if (!IsSpare(index)) report_.Chosen(computes.cached, known > 0 ? matches[0].tokens : 0);
    flight.charge = std::move(decision.charge);
    flight.answers_at.reset();
    if (flight.remote_prefill) {
      flight.prefill = std::move(pair.prefill.charge);
      flight.answers_at = at;
      ++report_.counts.remote_prefill;
    }
    ++open_;
    return;
  }
}

// Engines cache generated tokens, too, although no prompt of a trace is known to continue them.
std::vector<uint64_t> PoolSimulation::WithAnswer(uint32_t index, uint32_t output_tokens) const {
  const Request& request = requests_[index];
  std::vector<uint64_t> blocks = request.blocks;
  if (blocks.size() < request.prompt_tokens / kBlockTokens)
    return blocks;  // the blocks of its end are not known
  scheduler::Rng names(options_.seed + index);
  const uint64_t all = (uint64_t{request.prompt_tokens} + output_tokens) / kBlockTokens;
  while (blocks.size() < all) blocks.push_back(names.Next());
  return blocks;
}

bool PoolSimulation::Begin(size_t at, uint32_t index, uint32_t output_tokens, uint32_t given_tokens) {
  const Request& request = requests_[index];
  const engine::Admission admission = engines_[at].model.Submit({.id = index,
                                                                 .prompt_tokens = request.prompt_tokens,
                                                                 .output_tokens = output_tokens,
                                                                 .adapter = request.adapter,
                                                                 .given_tokens = given_tokens,
                                                                 .blocks = WithAnswer(index, output_tokens)},
                                                                now_);
  if (admission != engine::Admission::kAccepted) return false;
  index_.Predict(request.blocks, *load_[static_cast<ReplicaId>(at)].member, now_);
  engines_[at].there.push_back(index);
  return true;
}

void PoolSimulation::Leave(size_t replica, uint32_t index) {
  std::vector<uint32_t>& there = engines_[replica].there;
  there.erase(std::ranges::find(there, index));
  flights_[index].charge.Release();
  flights_[index].prefill.Release();
  --open_;
  if (IsSpare(index)) --open_lines_;
}

void PoolSimulation::Refuse(uint32_t index, uint64_t& count) {
  IsSpare(index) ? --open_lines_ : ++count;
}

void PoolSimulation::SendLines() {
  if (!options_.spare || next_request_ == urgent_) return;
  for (uint64_t room = options_.spare->in_flight - open_lines_; room > 0; --room) {
    if (urgent_ + next_line_ == requests_.size()) return;
    ++open_lines_;
    Come(static_cast<uint32_t>(urgent_ + next_line_++));
  }
}

// No further request of the others comes.
void PoolSimulation::DropLines() {
  for (auto held = held_.begin(); held != held_.end();) {
    const auto at = held++;
    if (!IsSpare(at->second.request)) continue;
    queue_.Leave(at->first, now_);
    held_.erase(at);
    --open_lines_;
  }
}

void PoolSimulation::CountPrompt(size_t at, uint32_t index, uint32_t cached) {
  const Request& request = requests_[index];
  if (!IsSpare(index)) report_.Prompt(request.prompt_tokens, cached);
  engines_[at].computed += request.prompt_tokens - cached;
}

// The prompt is computed and is transferred to the answering replica.
void PoolSimulation::OnPrefilled(size_t at, uint32_t index, const engine::Event& event) {
  Flight& flight = flights_[index];
  flight.prefill.FirstToken(now_);
  flight.prefill.Report(Outcome::kGood, now_);
  flight.prefill.Release();
  std::vector<uint32_t>& there = engines_[at].there;
  there.erase(std::ranges::find(there, index));
  CountPrompt(at, index, event.cached_tokens);
  if (!options_.kv_events) {
    index_.Confirm(requests_[index].blocks, *load_[static_cast<ReplicaId>(at)].member, now_);
  }
  const double seconds = requests_[index].prompt_tokens / options_.transfer_rate;
  on_the_way_.emplace(now_ + Duration(static_cast<int64_t>(seconds * 1e9)), index);
}

void PoolSimulation::Arrive(uint32_t index) {
  Flight& flight = flights_[index];
  const size_t at = *std::exchange(flight.answers_at, std::nullopt);
  const Request& request = requests_[index];
  flight.charge.PrefillArrived(now_);
  if (!engines_[at].dead && Begin(at, index, request.output_tokens, request.prompt_tokens)) return;
  flight.charge.Report(Outcome::kBad, now_);
  flight.charge.Release();
  --open_;
  Send(index);
}

void PoolSimulation::OnEvent(size_t at, const engine::Event& event) {
  const auto index = static_cast<uint32_t>(event.id);
  const Request& request = requests_[index];
  Flight& flight = flights_[index];
  if (flight.answers_at) {
    if (event.finished) OnPrefilled(at, index, event);
    return;
  }
  const bool whole = ComesWhole(index);
  if (!whole) signals(at).OnToken(now_);
  const TimePoint arrived = kBegin + request.at;
  if (event.first || (event.finished && !flight.first_token)) {
    flight.first_token = now_;
    flight.charge.FirstToken(now_);
    flight.charge.Report(Outcome::kGood, now_);
    if (!IsSpare(index)) report_.FirstToken(now_ - arrived, now_ - kBegin);
    if (!flight.remote_prefill) CountPrompt(at, index, event.cached_tokens);
    if (!options_.kv_events && !whole) flight.charge.Hold(request.blocks, now_);
  }
  if (!event.finished) return;
  if (whole) {
    flight.charge.Answered(now_);
    if (!options_.kv_events) {
      index_.Confirm(request.blocks, *load_[static_cast<ReplicaId>(at)].member, now_);
    }
  }
  flight.charge.LastToken(event.generated, now_);
  if (!IsSpare(index)) {
    report_.LastToken(now_ - arrived, now_ - *flight.first_token, event.generated);
  } else if (next_request_ < urgent_) {
    Report::Spare& spare = report_.counts.spare;
    ++spare.finished;
    spare.prompt_tokens += request.prompt_tokens;
    spare.output_tokens += event.generated;
  }
  expected_output_ += 0.05 * (event.generated - expected_output_);
  Leave(at, index);
}

void PoolSimulation::TakeKvEvents(size_t at) {
  const prefix::MemberId member = *load_[static_cast<ReplicaId>(at)].member;
  for (const auto& [block, stored] : engines_[at].changes) {
    stored ? index_.AddReported(block, member, now_) : index_.Remove(block, member);
  }
  engines_[at].changes.clear();
}

// Requests without a token go to another replica; the answers of the others break off.
void PoolSimulation::FailRequests(size_t at) {
  for (const uint32_t index : std::vector<uint32_t>(engines_[at].there)) {
    Flight& flight = flights_[index];
    (flight.answers_at ? flight.prefill : flight.charge).Report(Outcome::kBad, now_);
    const bool broken = flight.first_token.has_value();
    engines_[at].model.Cancel(index, now_);
    Leave(at, index);
    if (broken) {
      ++report_.counts.lost.broken;
    } else {
      Send(index);
    }
  }
}

void PoolSimulation::Strike(const Fault& fault) {
  SimulatedReplica& replica = engines_[fault.replica];
  (fault.kind == FaultKind::kDies ? replica.dead : replica.hung) = true;
  if (!replica.dead) return;
  index_.Clear(*load_[static_cast<ReplicaId>(fault.replica)].member);
  FailRequests(fault.replica);
}

void PoolSimulation::Tick() {
  for (size_t i = 0; i < engines_.size(); ++i) {
    Health& health = load_[static_cast<ReplicaId>(i)].health;
    if (health.ClaimDue(now_)) {
      health.OnProbe(engines_[i].dead ? ProbeResult::kFailed : ProbeResult::kGood, now_);
    }
  }
  std::vector<OutlierChange> changes;
  DetectOutliers(table_, ModelId{0}, load_, now_, changes);
  for (size_t i = 0; i < engines_.size(); ++i) {
    const OutlierStatus& standing = load_[static_cast<ReplicaId>(i)].outlier;
    if (standing.state() == OutlierStatus::State::kHung) FailRequests(i);
  }
}

Report PoolSimulation::Made() {
  Report report = report_.Build(urgent_, now_ - kBegin);
  double most = 0;
  double sum = 0;
  for (const SimulatedReplica& replica : engines_) {
    most = std::max(most, static_cast<double>(replica.computed));
    sum += static_cast<double>(replica.computed);
    report.preemptions += replica.model.counters().preemptions;
    report.adapter_loads += replica.model.adapters().loads();
  }
  if (sum > 0) report.spread = most / (sum / static_cast<double>(engines_.size()));
  return report;
}

Report PoolSimulation::Run(const std::function<bool(size_t)>& keep_going) {
  std::vector<engine::Event> events;
  size_t told = 0;
  SendLines();
  while (next_request_ < urgent_ || open_ > 0 || !held_.empty()) {
    now_ = Next();
    if (options_.telemetry_age > Duration::zero() && now_ >= next_sample_) {
      TakeSample();
      next_sample_ += options_.telemetry_every;
    }
    for (size_t i = 0; i < engines_.size(); ++i) {
      SimulatedReplica& replica = engines_[i];
      if (replica.dead || replica.hung || replica.model.NextStep() > now_) continue;
      events.clear();
      replica.model.Step(now_, events);
      TakeKvEvents(i);
      for (const engine::Event& event : events) OnEvent(i, event);
      if (std::ranges::any_of(events, [](const engine::Event& e) { return e.first || e.finished; }))
        CallWaiting();
    }
    while (next_fault_ < options_.faults.size() && kBegin + options_.faults[next_fault_].at <= now_) {
      Strike(options_.faults[next_fault_++]);
    }
    if (!options_.faults.empty() && now_ >= next_tick_) {
      Tick();
      next_tick_ += kTick;
    }
    while (!on_the_way_.empty() && on_the_way_.begin()->first <= now_) {
      const uint32_t index = on_the_way_.begin()->second;
      on_the_way_.erase(on_the_way_.begin());
      Arrive(index);
    }
    while (next_request_ < urgent_ && kBegin + requests_[next_request_].at <= now_) {
      Come(static_cast<uint32_t>(next_request_++));
      if (next_request_ == urgent_) DropLines();
    }
    SendLines();
    if (!held_.empty() && now_ >= next_call_) {
      CallWaiting();
      next_call_ = now_ + kCallEvery;
    }
    if (keep_going && next_request_ >= told + kTellProgressEvery) {
      told = next_request_;
      if (!keep_going(told)) return {};
    }
  }
  return Made();
}

}  // namespace

engine::Profile Simulated(engine::Profile profile) {
  const uint64_t tokens = uint64_t{profile.kv_blocks} * profile.block_size;
  profile.block_size = kBlockTokens;
  profile.kv_blocks = static_cast<uint32_t>(tokens / kBlockTokens);
  profile.max_fused_steps = 16;
  return profile;
}

Report Simulate(const Options& options, std::span<const Request> requests,
                const std::function<bool(size_t sent)>& keep_going) {
  return PoolSimulation(options, requests).Run(keep_going);
}

}  // namespace router::sim
