#include "bench/scheduling/fair_share.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/scheduling/section.h"
#include "bench/scheduling/workload.h"
#include "scheduler/sim/world.h"

namespace bench::scheduling {
namespace {

using namespace scheduler;
using sim::TraceJob;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr double kJainTarget = 0.98;
// A queue has its deserved share when it holds this part of it: jobs are whole, the largest is a tenth.
constexpr double kHolds = 0.9;
constexpr double kSteadyOfferedLoad = 0.6;  // of the cluster's time, each
constexpr std::array<uint32_t, 8> kSizes = {1, 1, 2, 2, 4, 8, 8, 16};

struct Team {
  std::string_view name;
  uint32_t sixteenths;  // of the cluster, deserved
  bool bursts;
};
constexpr std::array<Team, 4> kTeams = {
    {{"research", 5, false}, {"product", 4, false}, {"borrower", 2, false}, {"bursts", 5, true}}};

uint32_t SizeOf(const FairShareOptions& options, Rng& rng) {
  return std::min(kSizes[rng.Uniform(kSizes.size())], options.largest);
}

// Always wanted: a backlog of twice the deserved share, then arrivals at random.
void AddSteady(const Team& team, const FairShareOptions& options, Rng& rng, std::vector<TraceJob>& jobs) {
  const double capacity = options.nodes * 8.0;
  const double backlog = team.name == "borrower" ? capacity : 2 * capacity * team.sixteenths / 16;
  const double wanted = backlog + kSteadyOfferedLoad * capacity * 24 * options.days;
  double offered = 0;
  for (uint32_t number = 0; offered < wanted; ++number) {
    const uint32_t devices = SizeOf(options, rng);
    const conf::Duration run = Between(rng, minutes(10), minutes(110));
    const conf::Duration at =
        offered < backlog ? conf::Duration() : Between(rng, seconds(0), hours(24 * options.days));
    jobs.push_back(JobOn(std::string(team.name), number, devices, at, run));
    offered += devices * conf::ToSeconds(run) / 3600;
  }
}

// At two, eight, fourteen and twenty o'clock or so, for half as much again as it deserves, all at once.
void AddBursts(const Team& team, const FairShareOptions& options, Rng& rng, std::vector<TraceJob>& jobs) {
  const uint32_t deserved = options.nodes * 8 * team.sixteenths / 16;
  uint32_t number = 0;
  for (uint32_t burst = 0; burst < 4 * options.days; ++burst) {
    const conf::Duration at = hours(2 + 6 * burst) + Between(rng, seconds(0), minutes(60));
    for (uint32_t devices = 0; devices < deserved * 3 / 2;) {
      const uint32_t size = SizeOf(options, rng);
      jobs.push_back(
          JobOn(std::string(team.name), number++, size, at, Between(rng, minutes(40), minutes(120))));
      devices += size;
    }
  }
}

// Follows demand, allocation and reclaims of each queue, plan by plan.
class Follower {
 public:
  explicit Follower(const std::vector<Queue>& queues) : queues_(&queues), state_(queues.size()) {
    for (State& state : state_) state.took_from.resize(queues.size());
  }

  void Update(conf::TimePoint now, const Plan& plan, const Planner& planner) {
    NoteEnds(now, planner.jobs());
    for (size_t q = 0; q < state_.size(); ++q) NoteDemand(q, now, planner.queues());
    std::vector<bool> reclaims(state_.size());
    for (const Action& action : plan.actions) {
      if (action.kind == ActionKind::kStart) running_.push_back(action.job);
      if (action.why.code != "reclaimed") continue;
      const size_t from = QueueOf(action.job);
      const size_t to = QueueOf(std::string_view(action.why.text).substr(kMakesRoomFor.size()));
      NoteReclaim(from, to, now);
      reclaims[to] = true;
      ++out_.reclaims;
      out_.most_of_one_job = std::max(out_.most_of_one_job, ++victim_[action.job]);
    }
    for (size_t q = 0; q < state_.size(); ++q) {
      State& state = state_[q];
      if (!state.wants_since) continue;
      const int64_t held = planner.queues().allocated(static_cast<QueueIndex>(q), kAnyKind);
      const bool met = static_cast<double>(held) >= kHolds * static_cast<double>(Deserved(q));
      if (!state.met && reclaims[q]) {
        ++state.cycles;
        out_.first_cycle &= now == *state.wants_since;
        out_.most_cycles = std::max(out_.most_cycles, state.cycles);
      }
      if (met && !state.met) {
        state.met = true;
        out_.longest = std::max(out_.longest, now - *state.wants_since);
      }
    }
  }

  FairShareOutcome Finish(const sim::Report& report) {
    std::vector<double> ratios;
    for (size_t q = 0; q < state_.size(); ++q) {
      const State& state = state_[q];
      if (state.wants_since && !state.met) ++out_.unmet;
      const double deserved = static_cast<double>(Deserved(q)) / kWholeDevice;
      const double mean = report.queues[q].device_hours / report.hours;
      out_.queues.push_back({.name = (*queues_)[q].name,
                             .deserved = deserved,
                             .mean = mean,
                             .ratio = mean / deserved,
                             .satisfaction = report.queues[q].satisfaction,
                             .always_wanted = state.always,
                             .demands = state.demands});
      if (state.always) ratios.push_back(mean / deserved);
      out_.demands += state.demands;
    }
    out_.jain_of_ratios = JainIndex(ratios);
    out_.jain = report.jain;
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kMakesRoomFor = "makes room for ";

  struct State {
    std::optional<conf::TimePoint> wants_since{};  // at least its deserved share
    bool met = false;
    bool always = true;
    uint32_t demands = 0;
    uint32_t cycles = 0;                                      // with victims, for this demand
    std::vector<std::optional<conf::TimePoint>> took_from{};  // by queue, last
    std::optional<conf::TimePoint> ended{};                   // the last of its jobs that did
  };

  int64_t Deserved(size_t q) const { return (*queues_)[q].deserved.at("*"); }
  size_t QueueOf(std::string_view job) const {
    const std::string_view name = job.substr(0, job.find('/'));
    return static_cast<size_t>(std::ranges::find(*queues_, name, &Queue::name) - queues_->begin());
  }

  void NoteEnds(conf::TimePoint now, const JobTable& jobs) {
    std::erase_if(running_, [&](const std::string& id) {
      const JobIndex job = jobs.Find(id);
      if (job == kNone) state_[QueueOf(id)].ended = now;
      return job == kNone || jobs[job].phase == Phase::kPending;
    });
  }

  void NoteDemand(size_t q, conf::TimePoint now, const QueueTree& tree) {
    State& state = state_[q];
    const bool wants = tree.requested(static_cast<QueueIndex>(q), kAnyKind) >= Deserved(q);
    state.always &= wants;
    if (wants == state.wants_since.has_value()) return;
    if (!wants) {
      if (!state.met) ++out_.unmet;
      state.wants_since.reset();
      return;
    }
    state.wants_since = now;
    state.met = false;
    state.cycles = 0;
    ++state.demands;
  }

  void NoteReclaim(size_t from, size_t to, conf::TimePoint now) {
    const std::optional<conf::TimePoint>& other_way = state_[from].took_from[to];
    const auto wanted_since = [&](size_t q) {
      return state_[q].wants_since && other_way && *state_[q].wants_since <= *other_way;
    };
    const bool lost_by_itself = other_way && state_[to].ended && *state_[to].ended > *other_way;
    out_.reversals += wanted_since(from) && wanted_since(to) && !lost_by_itself;
    state_[to].took_from[from] = now;
  }

  const std::vector<Queue>* queues_;
  std::vector<State> state_;
  std::vector<std::string> running_;
  absl::flat_hash_map<std::string, uint32_t> victim_;  // times
  FairShareOutcome out_;
};

}  // namespace

FairShareOutcome MeasureFairShare(const FairShareOptions& options) {
  Rng rng(options.seed);
  const Cluster cluster = EightWayCluster(options.nodes);
  std::vector<Queue> queues;
  std::vector<TraceJob> jobs;
  for (const Team& team : kTeams) {
    const int64_t deserved = int64_t{options.nodes} * 8 * kWholeDevice * team.sixteenths / 16;
    queues.push_back({.name = std::string(team.name),
                      .parent = "",
                      .deserved = {{"*", deserved}},
                      .over_quota_weight = static_cast<double>(team.sixteenths)});
    if (team.bursts) {
      AddBursts(team, options, rng, jobs);
    } else {
      AddSteady(team, options, rng, jobs);
    }
  }
  sim::SortBySubmission(jobs);

  Follower follower(queues);
  sim::WorldOptions world;
  world.seed = options.seed;
  world.horizon = hours(24 * options.days);
  world.planned = [&](conf::TimePoint now, const Plan& plan, const Planner& planner) {
    follower.Update(now, plan, planner);
  };
  Policy policy;
  policy.order = {{"fair-share", 1'000'000}, {"age", 1}};
  policy.usage_half_life = options.half_life;
  policy.preemption.reclaim = options.reclaim;
  const sim::Report report = sim::World(cluster, queues, std::move(policy), jobs, std::move(world)).Run();
  return follower.Finish(report);
}

namespace {

std::string_view MetOrNot(bool met) {
  return met ? "met" : "not met";
}

nlohmann::json Show(std::string_view title, const FairShareOptions& options, const FairShareOutcome& o) {
  fmt::print("\n  {}, half-life {}\n  {:<10} {:>9} {:>9} {:>7} {:>13} {:>8}\n", title,
             conf::FormatDuration(options.half_life), "queue", "deserved", "held", "ratio", "satisfaction",
             "demands");
  nlohmann::json out;
  for (const QueueOutcome& q : o.queues) {
    fmt::print("  {:<10} {:>9.0f} {:>9.1f} {:>7.3f} {:>13.4f} {:>8}{}\n", q.name, q.deserved, q.mean, q.ratio,
               q.satisfaction, q.demands, q.always_wanted ? "" : "   in bursts");
    out["queues"][q.name] = {{"deserved", q.deserved},
                             {"held", q.mean},
                             {"ratio", q.ratio},
                             {"satisfaction", q.satisfaction},
                             {"always_wanted", q.always_wanted},
                             {"demands", q.demands}};
  }
  const bool within = o.unmet == 0 && o.longest <= options.half_life;
  const bool one_cycle = o.most_cycles <= 1 && o.first_cycle;
  const bool fair = o.jain_of_ratios >= kJainTarget && o.jain >= kJainTarget;
  fmt::print("  deserved within one half-life: {} of {} demands, the longest after {}: {}\n",
             o.demands - o.unmet, o.demands, conf::FormatDuration(o.longest), MetOrNot(within));
  fmt::print("  reclaim in one cycle: at most {} cycles chose victims for one demand{}: {}\n", o.most_cycles,
             o.first_cycle ? ", its first" : ", not always its first", MetOrNot(one_cycle));
  fmt::print(
      "  Jain >= {}: {:.4f} of held/deserved over those who always want, {:.4f} of satisfaction over all: "
      "{}\n",
      kJainTarget, o.jain_of_ratios, o.jain, MetOrNot(fair));
  fmt::print("  no oscillation: {} of {} reclaims took back; no job was a victim more than {} times: {}\n",
             o.reversals, o.reclaims, o.most_of_one_job, MetOrNot(o.reversals == 0));
  out["longest_to_deserved_seconds"] = conf::ToSeconds(o.longest);
  out["half_life_seconds"] = conf::ToSeconds(options.half_life);
  out["demands"] = o.demands;
  out["unmet_demands"] = o.unmet;
  out["within_one_half_life"] = within;
  out["most_reclaim_cycles"] = o.most_cycles;
  out["reclaim_in_one_cycle"] = one_cycle;
  out["jain_held_over_deserved"] = o.jain_of_ratios;
  out["jain_satisfaction"] = o.jain;
  out["jain_met"] = fair;
  out["reclaims"] = o.reclaims;
  out["reversals"] = o.reversals;
  out["most_reclaims_of_one_job"] = o.most_of_one_job;
  return out;
}

}  // namespace

absl::Status RunFairShare(const Options& options, nlohmann::json& out) {
  fmt::print(
      "\nfair-share: four queues on 512 devices, of which one comes in bursts and the others always want "
      "more\n");
  const FairShareOptions day;
  out["day"] = Show("a day", day, MeasureFairShare(day));
  const FairShareOptions single{.largest = 1};
  out["day_of_single_devices"] = Show("a day of jobs of one device", single, MeasureFairShare(single));
  const FairShareOptions without{.reclaim = false};
  out["day_without_reclaim"] = Show("a day without reclaim", without, MeasureFairShare(without));
  if (!options.quick) {
    const FairShareOptions week{.days = 7, .half_life = hours(24)};
    out["week"] = Show("a week", week, MeasureFairShare(week));
  }
  return absl::OkStatus();
}

}  // namespace bench::scheduling
