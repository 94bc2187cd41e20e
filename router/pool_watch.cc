#include "router/pool_watch.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace router {
namespace {

using conf::Duration;
using conf::TimePoint;

constexpr Duration kMaxPause = std::chrono::minutes(1);  // between the trials of a hung replica
constexpr int64_t kGaps = 3;                             // longest silences of late that say nothing
constexpr int64_t kMaxPatience = 4;                      // times hung_after, whatever was usual
constexpr uint32_t kWindows = 3;
constexpr double kEnough = 3;  // first tokens, or answers, by which a window can be judged
// What a request costs beside its tokens, and a step beside its requests, in tokens and requests: so that
// short prompts and few requests do not look slow.
constexpr double kTokensOfARequest = 256;
constexpr double kRequestsOfAStep = 16;
// Who is slower by less than this has done nobody harm.
constexpr double kFirstTokenHarm = 0.05;  // seconds
constexpr double kTokenHarm = 0.01;

// How slow it was over a time; nothing where there was too little.
struct Slowness {
  std::optional<double> first_token;  // seconds for each uncached token, a request counting as some
  std::optional<double> token;        // seconds a token for each request there, a step counting as some
  double tokens = 0;                  // behind the first, for one request
  double requests = 0;                // behind the second
};

Slowness Between(const Tally& before, const Tally& after) {
  Slowness slow;
  const double firsts = after.first_tokens - before.first_tokens;
  const double answers = after.answers - before.answers;
  if (firsts >= kEnough) {
    slow.tokens = (after.computed_tokens - before.computed_tokens) / firsts + kTokensOfARequest;
    slow.first_token = (after.computing_seconds - before.computing_seconds) / (firsts * slow.tokens);
  }
  if (answers >= kEnough) {
    slow.requests = (after.token_requests - before.token_requests) / answers + kRequestsOfAStep;
    slow.token = (after.token_seconds - before.token_seconds) / (answers * slow.requests);
  }
  return slow;
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// How many times slower than the pool; 0 where that does no harm or is not known.
double Excess(const Slowness& slow, const PoolPace& pool) {
  double most = 0;
  if (slow.first_token && pool.first_token > 0 &&
      (*slow.first_token - pool.first_token) * slow.tokens > kFirstTokenHarm) {
    most = std::max(most, *slow.first_token / pool.first_token);
  }
  if (slow.token && pool.token > 0 && (*slow.token - pool.token) * slow.requests > kTokenHarm) {
    most = std::max(most, *slow.token / pool.token);
  }
  return most;
}

}  // namespace

struct PoolWatch::Pool {
  const WatchConfig& config;
  std::span<const Replica> replicas;
  const LoadView& load;
  ModelCell& cell;
  const TimePoint now;
  std::vector<Change>& changes;

  Standing& standing(const Replica& replica) const { return load[replica.id].standing; }

  void Set(const Replica& replica, Standing::State state, Duration pause, Duration max_pause) const {
    Standing& at = standing(replica);
    const Standing::State was = at.state();
    if (state == Standing::State::kGood) {
      at.Clear();
    } else {
      at.Suspect(state, pause, max_pause, now);
    }
    if (was != state) changes.push_back({replica.id, was, state});
  }

  void LookForHung(const Replica& replica) const {
    const EngineSignals& engine = load[replica.id].engine;
    Standing& at = standing(replica);
    if (at.state() == Standing::State::kHung) {
      if (engine.heard_at() > at.since() || config.hung_after <= Duration::zero()) {
        Set(replica, Standing::State::kGood, {}, {});
      }
      return;
    }
    if (config.hung_after <= Duration::zero()) return;
    const Duration patience =
        std::clamp(kGaps * engine.usual_gap(), config.hung_after, kMaxPatience * config.hung_after);
    if (engine.Overdue(now) >= patience)
      Set(replica, Standing::State::kHung, config.hung_after / 3, kMaxPause);
  }

  // The first look takes the measure only.
  void LookForSlow() const {
    PoolPace& pace = cell.pace;
    if (pace.begun == TimePoint()) {
      pace.begun = now;
      for (const Replica& replica : replicas) {
        if (!standing(replica).suspected()) standing(replica).memory_.tally = load[replica.id].engine.tally();
      }
      return;
    }
    if (now - pace.begun < config.slow_for / kWindows) return;
    pace.begun = now;
    std::vector<Slowness> slow(replicas.size());
    std::vector<double> first_tokens;
    std::vector<double> tokens;
    for (size_t i = 0; i < replicas.size(); ++i) {
      Standing& at = standing(replicas[i]);
      if (at.state() == Standing::State::kEjected) continue;
      const Tally tally = load[replicas[i].id].engine.tally();
      slow[i] = Between(std::exchange(at.memory_.tally, tally), tally);
      // Long prompts alone are computed at another pace than short ones between others' tokens: `cost` goes
      // by it, and nobody else is their measure.
      if (replicas[i].spec.role == Role::kPrefill) slow[i] = {};
      if (slow[i].first_token) first_tokens.push_back(*slow[i].first_token);
      if (slow[i].token) tokens.push_back(*slow[i].token);
    }
    // Two alone cannot say which of them is the odd one.
    if (first_tokens.size() >= 3) pace.first_token = Median(first_tokens);
    if (tokens.size() >= 3) pace.token = Median(tokens);
    Judge(slow);
  }

  void Judge(std::span<const Slowness> slow) const {
    std::vector<std::pair<double, size_t>> outliers;
    size_t out = 0;
    for (size_t i = 0; i < replicas.size(); ++i) {
      Standing& at = standing(replicas[i]);
      if (at.suspected()) {
        ++out;
        continue;
      }
      const bool known = slow[i].first_token || slow[i].token;
      const double excess = Excess(slow[i], cell.pace);
      if (excess > config.slow_factor) {
        if (++at.memory_.slow_windows >= kWindows) outliers.emplace_back(excess, i);
      } else if (known) {
        at.memory_.slow_windows = 0;
      }
    }
    std::ranges::sort(outliers, std::greater());
    for (const auto& [excess, i] : outliers) {
      if (out >= replicas.size() / 3) return;
      Eject(replicas[i]);
      ++out;
    }
  }

  void Eject(const Replica& replica) const {
    Standing::Memory& memory = standing(replica).memory_;
    // Who has been good for long is no old offender.
    if (memory.good_since != TimePoint() && now - memory.good_since > 4 * config.max_eject) {
      memory.next_eject = {};
    }
    const Duration pause = std::clamp(memory.next_eject, config.eject, config.max_eject);
    memory.next_eject = std::min(2 * pause, config.max_eject);
    memory.tally = load[replica.id].engine.tally();
    memory.slow_windows = 0;
    Set(replica, Standing::State::kEjected, pause, pause);
  }

  // Its trials, once there are enough; trials that say nothing (answers that come whole) do not keep it out
  // for ever.
  void LookAtEjected(const Replica& replica) const {
    Standing& at = standing(replica);
    const Slowness slow = Between(at.memory_.tally, load[replica.id].engine.tally());
    const bool judged = slow.first_token || slow.token;
    const bool waits = now - at.since() < 2 * at.memory_.next_eject;
    if (config.slow_factor > 0 && !judged && waits) return;
    if (config.slow_factor > 0 && Excess(slow, cell.pace) > config.slow_factor) {
      Eject(replica);
      return;
    }
    at.memory_.good_since = now;
    Set(replica, Standing::State::kGood, {}, {});
  }

  void LookForNew() const {
    const auto usable = [&](const Replica& replica) {
      const ReplicaState& state = load[replica.id];
      return state.health.Usable() && state.breaker.phase(now) == Breaker::Phase::kClosed &&
             !state.standing.suspected();
    };
    const bool served = std::ranges::any_of(replicas, [&](const Replica& replica) {
      return standing(replica).memory_.usable && usable(replica);
    });
    for (const Replica& replica : replicas) {
      Standing& at = standing(replica);
      const bool is = usable(replica);
      if (is && !at.memory_.usable && served) at.BeginSlowStart(config.slow_start, now);
      at.memory_.usable = is;
    }
  }
};

void PoolWatch::Look(const RouteTable& table, ModelId model, const LoadView& load, TimePoint now,
                     std::vector<Change>& changes) {
  ModelCell& cell = load.cell(model);
  const Pool pool{table.model(model).spec.watch, table.replicas(model), load, cell, now, changes};
  for (const Replica& replica : pool.replicas) {
    pool.LookForHung(replica);
    if (pool.standing(replica).state() == Standing::State::kEjected) pool.LookAtEjected(replica);
  }
  if (pool.config.slow_factor > 0) pool.LookForSlow();
  pool.LookForNew();
  uint32_t suspected = 0;
  uint32_t growing = 0;
  for (const Replica& replica : pool.replicas) {
    if (pool.standing(replica).suspected()) ++suspected;
    if (pool.standing(replica).InSlowStart(now)) ++growing;
  }
  cell.suspected.store(suspected, std::memory_order_relaxed);
  cell.growing.store(growing, std::memory_order_relaxed);
}

}  // namespace router
