#include "router/outlier_detection.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace router {
namespace {

using conf::Duration;
using conf::TimePoint;

constexpr Duration kMaxPause = std::chrono::minutes(1);  // between the trials of a hung replica
constexpr int64_t kGaps = 3;                             // times the longest recent silence is still normal
constexpr int64_t kMaxPatience = 4;                      // times hung_after, however long silences are
constexpr uint32_t kWindows = 3;                         // slow windows in a row that eject
constexpr double kMinSamples = 3;                        // first tokens, or answers, that a window needs
// Fixed cost of a request, in tokens, and of a step, in requests. Without it short prompts and small batches
// would look slow.
constexpr double kTokensPerRequest = 256;
constexpr double kRequestsPerStep = 16;
// A replica that is slower than the median by less than this harms nobody.
constexpr double kFirstTokenHarm = 0.05;  // seconds
constexpr double kTokenHarm = 0.01;       // seconds

// How slow a replica was over some time; nullopt where it had too few samples.
struct Slowness {
  std::optional<double> first_token;  // seconds per uncached token, the fixed cost of a request included
  std::optional<double> token;        // seconds per token and running request, the fixed cost included
  double tokens = 0;                  // mean divisor of `first_token`
  double requests = 0;                // mean divisor of `token`
};

Slowness Between(const SpeedTotals& before, const SpeedTotals& after) {
  Slowness slow;
  const double firsts = after.first_tokens - before.first_tokens;
  const double answers = after.answers - before.answers;
  if (firsts >= kMinSamples) {
    slow.tokens = (after.computed_tokens - before.computed_tokens) / firsts + kTokensPerRequest;
    slow.first_token = (after.computing_seconds - before.computing_seconds) / (firsts * slow.tokens);
  }
  if (answers >= kMinSamples) {
    slow.requests = (after.token_requests - before.token_requests) / answers + kRequestsPerStep;
    slow.token = (after.token_seconds - before.token_seconds) / (answers * slow.requests);
  }
  return slow;
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// How many times slower than the pool's median; 0 where that harms nobody or is not known.
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

// One pass over the replicas of one model.
class Pass {
 public:
  Pass(const RouteTable& table, ModelId model, const LoadView& load, TimePoint now,
       std::vector<OutlierChange>& changes)
      : config_(table.model(model).spec.outliers),
        replicas_(table.replicas(model)),
        load_(load),
        cell_(load.cell(model)),
        now_(now),
        changes_(changes) {}

  void Run() {
    for (const Replica& replica : replicas_) {
      CheckHung(replica);
      if (Status(replica).state() == OutlierStatus::State::kEjected) CheckEjected(replica);
    }
    if (config_.slow_factor > 0) CheckSlow();
    CheckNew();
    Publish();
  }

 private:
  OutlierStatus& Status(const Replica& replica) const { return load_[replica.id].outlier; }
  OutlierMemory& Memory(const Replica& replica) const { return load_[replica.id].outlier_memory; }
  SpeedTotals Totals(const Replica& replica) const { return load_[replica.id].engine.totals(); }

  void Set(const Replica& replica, OutlierStatus::State state, Duration pause, Duration max_pause) {
    OutlierStatus& status = Status(replica);
    const OutlierStatus::State was = status.state();
    if (state == OutlierStatus::State::kGood) {
      status.Clear();
    } else {
      status.Suspect(state, pause, max_pause, now_);
    }
    if (was != state) changes_.push_back({replica.id, was, state});
  }

  void CheckHung(const Replica& replica) {
    const EngineSignals& engine = load_[replica.id].engine;
    const OutlierStatus& status = Status(replica);
    if (status.state() == OutlierStatus::State::kHung) {
      if (engine.heard_at() > status.since() || config_.hung_after <= Duration::zero()) {
        Set(replica, OutlierStatus::State::kGood, {}, {});
      }
      return;
    }
    if (config_.hung_after <= Duration::zero()) return;
    const Duration patience =
        std::clamp(kGaps * engine.usual_gap(), config_.hung_after, kMaxPatience * config_.hung_after);
    if (engine.Overdue(now_) >= patience) {
      Set(replica, OutlierStatus::State::kHung, config_.hung_after / 3, kMaxPause);
    }
  }

  // Closes a window when its time is over. The first pass only takes the starting totals.
  void CheckSlow() {
    PoolPace& pace = cell_.pace;
    if (pace.window_start == TimePoint()) {
      pace.window_start = now_;
      for (const Replica& replica : replicas_) {
        if (!Status(replica).suspected()) Memory(replica).totals = Totals(replica);
      }
      return;
    }
    if (now_ - pace.window_start < config_.slow_for / kWindows) return;
    pace.window_start = now_;
    std::vector<Slowness> slow(replicas_.size());
    std::vector<double> first_tokens;
    std::vector<double> tokens;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (Status(replicas_[i]).state() == OutlierStatus::State::kEjected) continue;
      const SpeedTotals totals = Totals(replicas_[i]);
      slow[i] = Between(std::exchange(Memory(replicas_[i]).totals, totals), totals);
      // A prefill replica computes long prompts alone, at another pace than short prompts between decode
      // steps: it is no measure for the others, nor they for it.
      if (replicas_[i].spec.role == Role::kPrefill) slow[i] = {};
      if (slow[i].first_token) first_tokens.push_back(*slow[i].first_token);
      if (slow[i].token) tokens.push_back(*slow[i].token);
    }
    // Between two replicas alone, it is unknown which of them is the outlier.
    if (first_tokens.size() >= 3) pace.first_token = Median(first_tokens);
    if (tokens.size() >= 3) pace.token = Median(tokens);
    EjectSlowest(slow);
  }

  void EjectSlowest(std::span<const Slowness> slow) {
    std::vector<std::pair<double, size_t>> outliers;
    size_t out = 0;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (Status(replicas_[i]).suspected()) {
        ++out;
        continue;
      }
      OutlierMemory& memory = Memory(replicas_[i]);
      const bool known = slow[i].first_token || slow[i].token;
      const double excess = Excess(slow[i], cell_.pace);
      if (excess > config_.slow_factor) {
        if (++memory.slow_windows >= kWindows) outliers.emplace_back(excess, i);
      } else if (known) {
        memory.slow_windows = 0;
      }
    }
    std::ranges::sort(outliers, std::greater());
    for (const auto& [excess, i] : outliers) {
      if (out >= replicas_.size() / 3) return;
      Eject(replicas_[i]);
      ++out;
    }
  }

  void Eject(const Replica& replica) {
    OutlierMemory& memory = Memory(replica);
    // After a long good time a replica starts again with a short ejection.
    if (memory.good_since != TimePoint() && now_ - memory.good_since > 4 * config_.max_eject) {
      memory.next_eject = {};
    }
    const Duration pause = std::clamp(memory.next_eject, config_.eject, config_.max_eject);
    memory.next_eject = std::min(2 * pause, config_.max_eject);
    memory.totals = Totals(replica);
    memory.slow_windows = 0;
    Set(replica, OutlierStatus::State::kEjected, pause, pause);
  }

  // Judges an ejected replica by its trials, once there are enough. Trials that say nothing (answers that are
  // not streamed) do not keep it out for ever.
  void CheckEjected(const Replica& replica) {
    OutlierMemory& memory = Memory(replica);
    const Slowness slow = Between(memory.totals, Totals(replica));
    const bool judged = slow.first_token || slow.token;
    const bool waits = now_ - Status(replica).since() < 2 * memory.next_eject;
    if (config_.slow_factor > 0 && !judged && waits) return;
    if (config_.slow_factor > 0 && Excess(slow, cell_.pace) > config_.slow_factor) {
      Eject(replica);
      return;
    }
    memory.good_since = now_;
    Set(replica, OutlierStatus::State::kGood, {}, {});
  }

  // Begins the slow start of replicas that have become usable beside others that served already.
  void CheckNew() {
    const auto usable = [&](const Replica& replica) {
      const ReplicaState& state = load_[replica.id];
      return state.health.Usable() && state.breaker.phase(now_) == Breaker::Phase::kClosed &&
             !state.outlier.suspected();
    };
    const bool served = std::ranges::any_of(
        replicas_, [&](const Replica& replica) { return Memory(replica).usable && usable(replica); });
    for (const Replica& replica : replicas_) {
      const bool is = usable(replica);
      if (is && !Memory(replica).usable && served) Status(replica).BeginSlowStart(config_.slow_start, now_);
      Memory(replica).usable = is;
    }
  }

  void Publish() const {
    uint32_t suspected = 0;
    uint32_t in_slow_start = 0;
    for (const Replica& replica : replicas_) {
      if (Status(replica).suspected()) ++suspected;
      if (Status(replica).InSlowStart(now_)) ++in_slow_start;
    }
    cell_.suspected.store(suspected, std::memory_order_relaxed);
    cell_.in_slow_start.store(in_slow_start, std::memory_order_relaxed);
  }

  const OutlierConfig& config_;
  const std::span<const Replica> replicas_;
  const LoadView& load_;
  ModelCell& cell_;
  const TimePoint now_;
  std::vector<OutlierChange>& changes_;
};

}  // namespace

void DetectOutliers(const RouteTable& table, ModelId model, const LoadView& load, TimePoint now,
                    std::vector<OutlierChange>& changes) {
  Pass(table, model, load, now, changes).Run();
}

}  // namespace router
