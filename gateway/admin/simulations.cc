#include "gateway/admin/simulations.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/config/job_file.h"
#include "gateway/config/model_policy.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/thread.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/io/what_if.h"
#include "scheduler/planner.h"

namespace gateway::admin {
namespace {

using scheduler::Snapshot;
using scheduler::sim::Forecast;
using scheduler::sim::ForecastJob;

constexpr size_t kShownJobs = 200;
constexpr uint64_t kMostNodes = 1000;    // added
constexpr uint32_t kMostElements = 200;  // of an array that is tried
constexpr int kNice = 15;

std::string In(conf::TimePoint at, conf::TimePoint from) {
  if (at <= from) return "at once";
  return fmt::format("in {}", conf::InWords(std::chrono::duration_cast<std::chrono::seconds>(at - from)));
}

struct Waits {
  size_t jobs = 0;
  size_t started = 0;
  double mean_seconds = 0;  // of those that start
};

Waits WaitsOf(const std::vector<const ForecastJob*>& jobs, conf::TimePoint from) {
  Waits waits{.jobs = jobs.size()};
  for (const ForecastJob* const job : jobs) {
    if (!job->starts) continue;
    ++waits.started;
    waits.mean_seconds += conf::ToSeconds(*job->starts - from);
  }
  if (waits.started > 0) waits.mean_seconds /= static_cast<double>(waits.started);
  return waits;
}

std::string Mean(const Waits& waits) {
  if (waits.started == 0) return "none starts";
  return conf::InWords(std::chrono::seconds(static_cast<int64_t>(waits.mean_seconds)));
}

class PlanAnswer {
 public:
  PlanAnswer(const WhatIf& asked, const Forecast& today, const Forecast& changed)
      : asked_(asked), from_(asked.plan->today.as_of), today_(today), changed_(changed) {
    for (const ForecastJob& job : today.jobs) {
      if (IsTheirs(job)) before_.emplace(job.id, &job);
    }
  }

  answers::Simulation Make() {
    const absl::flat_hash_set<std::string> asked(asked_.plan->asked.begin(), asked_.plan->asked.end());
    std::vector<const ForecastJob*> was;
    std::vector<const ForecastJob*> would;
    size_t earlier = 0;
    size_t later = 0;
    for (const ForecastJob& job : changed_.jobs) {
      if (!IsTheirs(job)) continue;
      const auto before = before_.find(job.id);
      const bool is_asked = asked.contains(job.id);
      const ForecastJob* const then = before == before_.end() ? nullptr : before->second;
      if (then != nullptr) {
        was.push_back(then);
        would.push_back(&job);
        const auto never = conf::TimePoint::max();
        earlier += job.starts.value_or(never) < then->starts.value_or(never) ? 1 : 0;
        later += job.starts.value_or(never) > then->starts.value_or(never) ? 1 : 0;
      }
      if (is_asked) TellAsked(job);
      Show(job, then, is_asked);
    }
    if (today_.whole && changed_.whole) {
      TellWaiting(WaitsOf(was, from_), WaitsOf(would, from_), earlier, later);
    } else {
      out_.sentences.emplace_back(
          "The simulation took too long and was cut short; later starts are not known.");
    }
    return std::move(out_);
  }

 private:
  bool IsTheirs(const ForecastJob& job) const {
    return asked_.authority.MayFor(Permission::kSeeJobs, job.tenant);
  }

  void TellAsked(const ForecastJob& job) {
    constexpr size_t kTold = 5;
    if (told_++ >= kTold) return;
    out_.sentences.push_back(
        job.starts
            ? fmt::format("{} would start {}{}.", job.id, In(*job.starts, from_),
                          job.ends ? fmt::format(" and end {}", In(*job.ends, from_)) : "")
            : fmt::format(
                  "{} would not start within {}.", job.id,
                  conf::InWords(std::chrono::duration_cast<std::chrono::seconds>(changed_.until - from_))));
  }

  void Show(const ForecastJob& job, const ForecastJob* then, bool asked) {
    if (out_.jobs.size() >= kShownJobs && !asked) {
      out_.more_jobs = true;
      return;
    }
    out_.jobs.push_back({.id = job.id,
                         .queue = job.queue,
                         .asked = asked,
                         .today = answers::TimeOrNull(then == nullptr ? std::nullopt : then->starts),
                         .what_if = answers::TimeOrNull(job.starts)});
  }

  void TellWaiting(const Waits& was, const Waits& would, size_t earlier, size_t later) {
    if (was.jobs == 0) {
      out_.sentences.emplace_back("No other job that you may see waits now.");
      return;
    }
    out_.sentences.push_back(
        earlier + later == 0 ? "The jobs that wait now would start when they start today."
                             : fmt::format("Of {} jobs that wait now, {} would start earlier and {} later.",
                                           was.jobs, earlier, later));
    out_.facts.push_back({.name = "jobs that start",
                          .today = fmt::format("{} of {}", was.started, was.jobs),
                          .what_if = fmt::format("{} of {}", would.started, would.jobs)});
    out_.facts.push_back({.name = "mean wait until the start", .today = Mean(was), .what_if = Mean(would)});
    if (!asked_.authority.MayEverywhere(Permission::kSimulate)) return;
    out_.facts.push_back({.name = "jobs stopped for others",
                          .today = fmt::format("{}", today_.preemptions),
                          .what_if = fmt::format("{}", changed_.preemptions)});
  }

  const WhatIf& asked_;
  const conf::TimePoint from_;
  const Forecast& today_;
  const Forecast& changed_;
  absl::flat_hash_map<std::string, const ForecastJob*> before_;
  size_t told_ = 0;
  answers::Simulation out_;
};

std::string Share(double part, double of) {
  return of <= 0 ? "0 %" : fmt::format("{:.1f} %", 100 * part / of);
}

answers::Simulation ScalingAnswer(const WhatIfScaling& asked) {
  using scheduler::autoscale::Replayed;
  const Replayed was = Replay(asked.running, asked.observed, asked.cold_start);
  const Replayed would = Replay(asked.changed, asked.observed, asked.cold_start);
  const double was_hours = was.replica_seconds / 3600 * asked.devices_running;
  const double would_hours = would.replica_seconds / 3600 * asked.devices_changed;
  answers::Simulation out;
  out.sentences.push_back(fmt::format(
      "Under the traffic of the last {}, the policy would use {:.1f} device-hours instead of {:.1f}.",
      conf::InWords(std::chrono::duration_cast<std::chrono::seconds>(asked.observed.back().at -
                                                                     asked.observed.front().at)),
      would_hours, was_hours));
  out.sentences.push_back(fmt::format(
      "{} of the work would wait longer than slo.ttft instead of {}, and {} would be refused instead of {}.",
      Share(would.late, would.work), Share(was.late, was.work), Share(would.refused, would.work),
      Share(was.refused, was.work)));
  const auto fact = [&out](std::string name, std::string today, std::string changed) {
    out.facts.push_back({.name = std::move(name), .today = std::move(today), .what_if = std::move(changed)});
  };
  fact("device-hours", fmt::format("{:.1f}", was_hours), fmt::format("{:.1f}", would_hours));
  fact("most replicas", fmt::format("{}", was.most), fmt::format("{}", would.most));
  fact("starts", fmt::format("{}", was.starts), fmt::format("{}", would.starts));
  fact("late work", Share(was.late, was.work), Share(would.late, would.work));
  fact("refused work", Share(was.refused, was.work), Share(would.refused, would.work));
  fact("longest wait", conf::InWords(std::chrono::duration_cast<std::chrono::milliseconds>(was.longest_wait)),
       conf::InWords(std::chrono::duration_cast<std::chrono::milliseconds>(would.longest_wait)));
  return out;
}

}  // namespace

answers::Simulation Answered(const WhatIf& asked, const std::function<bool(double)>& go_on) {
  if (asked.scaling) return ScalingAnswer(*asked.scaling);
  const WhatIfPlan& plan = *asked.plan;
  const auto half = [&go_on](double from) {
    return [&go_on, from](size_t started, size_t of) {
      return go_on(from + 0.5 * static_cast<double>(started) / static_cast<double>(std::max<size_t>(of, 1)));
    };
  };
  const Forecast today = scheduler::sim::ForecastStarts(plan.today, plan.policy_today, {}, half(0));
  const Forecast changed = scheduler::sim::ForecastStarts(plan.changed, plan.policy_changed, {}, half(0.5));
  return PlanAnswer(asked, today, changed).Make();
}

Simulations::~Simulations() {
  for (const std::unique_ptr<Run>& run : runs_) run->cancelled = true;
  for (const std::unique_ptr<Run>& run : runs_) run->thread.join();
}

absl::StatusOr<std::string> Simulations::Start(WhatIf asked, conf::TimePoint now) {
  const auto running = std::ranges::count_if(runs_, [](const auto& run) { return !run->over; });
  if (running >= static_cast<ptrdiff_t>(kRunning)) {
    return absl::ResourceExhaustedError(conf::Abseil(
        fmt::format("{} simulations run already; wait for one of them, or cancel it", kRunning)));
  }
  if (runs_.size() >= kKept) {
    const auto oldest = std::ranges::find_if(runs_, [](const auto& run) { return run->over.load(); });
    (*oldest)->thread.join();
    runs_.erase(oldest);
  }
  auto run = std::make_unique<Run>();
  run->head = {.id = fmt::format("sim-{}", next_++),
               .question = asked.question,
               .actor = asked.actor,
               .created = {now}};
  std::string id = run->head.id;
  run->thread = std::thread([run = run.get(), asked = std::move(asked)] { Work(*run, asked); });
  runs_.push_back(std::move(run));
  return id;
}

void Simulations::Work(Run& run, const WhatIf& asked) {
  NameThread("what-if");
  YieldToShards(kNice);
  const conf::TimePoint begun = net::Now();
  try {
    run.answer = Answered(asked, [&](double progress) {
      run.progress = progress;
      // The present state has the first half of the time.
      const conf::Duration most = std::chrono::seconds(progress < 0.5 ? kMostSeconds / 2 : kMostSeconds);
      return !run.cancelled && net::Now() < begun + most;
    });
    run.answer.state = run.cancelled ? "cancelled" : "done";
    if (run.cancelled) run.answer = {.state = "cancelled"};
  } catch (const std::exception& error) {
    log::Error("a simulation failed", {{"what", error.what()}});
    run.answer = {.state = "failed", .problem = "the simulation failed; the log says why"};
  }
  run.over = true;
}

answers::Simulation Simulations::ShowRun(const Run& run) {
  const bool over = run.over;
  answers::Simulation shown = over ? run.answer : answers::Simulation{.state = "running"};
  shown.id = run.head.id;
  shown.question = run.head.question;
  shown.actor = run.head.actor;
  shown.created = run.head.created;
  shown.progress = over ? 1 : run.progress.load();
  return shown;
}

Simulations::Runs::const_iterator Simulations::Find(const std::string& id, std::string_view actor,
                                                    bool all) const {
  return std::ranges::find_if(
      runs_, [&](const auto& run) { return run->head.id == id && (all || run->head.actor == actor); });
}

std::optional<answers::Simulation> Simulations::Show(const std::string& id, std::string_view actor,
                                                     bool all) const {
  const auto found = Find(id, actor, all);
  return found == runs_.end() ? std::nullopt : std::optional(ShowRun(**found));
}

std::vector<answers::Simulation> Simulations::List(std::string_view actor, bool all) const {
  std::vector<answers::Simulation> out;
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    if (!all && (*run)->head.actor != actor) continue;
    out.push_back(ShowRun(**run));
    out.back().jobs.clear();
  }
  return out;
}

bool Simulations::Cancel(const std::string& id, std::string_view actor, bool all) {
  const auto found = Find(id, actor, all);
  if (found == runs_.end()) return false;
  (*found)->cancelled = true;
  if ((*found)->over) {
    (*found)->thread.join();
    runs_.erase(found);
  }
  return true;
}

namespace {

// Reads the question of a call; what is wrong with it is in problems().
class Question {
 public:
  Question(const Operations& operations, const Call& call) : operations_(operations), call_(call) {}

  WhatIf Read() {
    asked_.actor = call_.caller.actor;
    asked_.authority = call_.caller.authority;
    if (call_.body.contains("scaling")) {
      ReadScaling();
    } else {
      ReadPlan();
    }
    asked_.question = fmt::format("{}", fmt::join(parts_, ", "));
    return std::move(asked_);
  }
  const std::vector<FieldProblem>& problems() const { return problems_; }

 private:
  void Wrong(std::string field, std::string why) { problems_.push_back({std::move(field), std::move(why)}); }
  template <class Problems>
  void Take(const std::string& field, const Problems& problems) {
    for (const conf::Problem& problem : problems) Wrong(field, ToString(problem));
  }

  void ReadScaling() {
    const std::string text = call_.Text("scaling");
    const auto loaded = config::ReadUnopenedPolicy(text, "scaling");
    Take("scaling", loaded.problems);
    for (const char* const other : {"job", "add_nodes", "quotas", "policy"}) {
      if (call_.body.contains(other)) Wrong(other, "cannot be combined with scaling");
    }
    if (!loaded.value) return;
    const std::string& model = loaded.value->model();
    std::optional<control::ScalingHistory> history = operations_.scaling_history(model);
    if (!history || history->steps.size() < 2)
      return Wrong("scaling",
                   fmt::format("no traffic of \"{}\" under a scaling policy was recorded, so the policy "
                               "cannot be tried",
                               model));
    asked_.scaling = {.observed = std::move(history->steps),
                      .running = std::move(history->policy),
                      .changed = loaded.value->scaling,
                      .cold_start = history->cold_start.value_or(std::chrono::minutes(1)),
                      .devices_running = history->devices,
                      .devices_changed = config::DevicesOf(*loaded.value)};
    parts_.push_back(fmt::format("another scaling policy of {}", model));
  }

  void ReadPlan() {
    const Config& config = call_.runtime->config();
    const scheduler::Planner* const planner = operations_.planner();
    if (planner == nullptr || !config.scaling) return Wrong("", "this gateway schedules no devices");
    asked_.plan.emplace();
    WhatIfPlan& plan = *asked_.plan;
    plan.today = planner->TakeSnapshot(call_.now);
    plan.policy_today = config.scaling->planning.policy;
    plan.changed = plan.today;
    plan.policy_changed = plan.policy_today;
    ReadNodes(plan.changed);
    ReadPolicy(plan);
    ReadQuotas(plan.changed);
    ReadJob(plan);
    if (problems_.empty() && parts_.empty())
      Wrong("", "ask something: job, add_nodes, quotas, policy or scaling");
  }

  void ReadNodes(Snapshot& changed) {
    if (!call_.body.contains("add_nodes")) return;
    const auto count = call_.body["add_nodes"].get<uint64_t>();
    if (count == 0 || count > kMostNodes)
      return Wrong("add_nodes", fmt::format("{} is not from 1 to {}", count, kMostNodes));
    const std::vector<scheduler::Node>& nodes = changed.cluster.nodes;
    if (nodes.empty()) return Wrong("add_nodes", "the cluster has no node of which copies could be added");
    const std::string like = call_.Text("like");
    const auto model =
        like.empty() ? nodes.end() - 1 : std::ranges::find(nodes, like, &scheduler::Node::name);
    if (model == nodes.end()) return Wrong("like", fmt::format("there is no node \"{}\"", like));
    parts_.push_back(fmt::format("{} more node{} like {}", count, count == 1 ? "" : "s", model->name));
    scheduler::io::AddNodes(changed.cluster, static_cast<scheduler::NodeId>(model - nodes.begin()),
                            static_cast<uint32_t>(count));
    if (!changed.health.empty()) changed.health.resize(changed.cluster.nodes.size());
  }

  void ReadPolicy(WhatIfPlan& plan) {
    const std::string text = call_.Text("policy");
    if (text.empty()) return;
    auto loaded = scheduler::io::ReadPolicy(text, "policy", &plan.changed.cluster);
    Take("policy", loaded.problems);
    if (!loaded.value) return;
    parts_.emplace_back("another policy of the planner");
    plan.policy_changed = std::move(loaded.value->policy);
    if (loaded.value->queues.empty()) return;
    std::set<std::string> leaves;
    for (const scheduler::Queue& queue : loaded.value->queues) leaves.insert(queue.name);
    for (const scheduler::Queue& queue : loaded.value->queues) leaves.erase(queue.parent);
    for (const scheduler::JobState& job : plan.changed.jobs) {
      if (!leaves.contains(job.job.queue))
        return Wrong("policy",
                     fmt::format("has no queue \"{}\" without queues below it, and there is work in it",
                                 job.job.queue));
    }
    plan.changed.queues = std::move(loaded.value->queues);
  }

  void ReadQuotas(Snapshot& changed) {
    const std::vector<std::string> quotas = call_.Texts("quotas");
    for (const std::string& quota : quotas) {
      if (std::string why = scheduler::io::SetQuota(quota, changed.queues); !why.empty())
        return Wrong("quotas", std::move(why));
      parts_.push_back("quota " + quota);
    }
    if (quotas.empty()) return;
    const std::string text = scheduler::io::WritePolicy({.policy = {}, .queues = changed.queues});
    Take("quotas", scheduler::io::ReadPolicy(text, "quotas", &changed.cluster).problems);
  }

  // The job arrives now.
  void ReadJob(WhatIfPlan& plan) {
    if (call_.Text("job").empty()) return;
    auto loaded = config::ReadJobFile(call_.Text("job"), "job", config::ReferencesOnly());
    Take("job", loaded.problems);
    if (!loaded.value) return;
    config::JobFile& file = *loaded.value;
    if (const std::string why = WhyNotTheirs(file.job); !why.empty()) return Wrong("job", why);
    if (file.job.queue.empty()) file.job.queue = FirstLeaf(plan.changed.queues);
    Take("job", config::CheckJob(file, plan.changed.cluster, plan.changed.queues));
    if (!problems_.empty()) return;
    file.job.submitted = plan.changed.as_of;
    file.job.user = call_.caller.actor;
    file.job.after.clear();
    scheduler::Ask& ask = file.job.roles.front().ask;
    for (scheduler::LabelRule& rule : config::ResidencyOf(call_.runtime->config().tenants, file.job.tenant))
      ask.require.push_back(std::move(rule));
    const std::string name = NewIdOf(file.name, plan.changed);
    const uint32_t elements = std::min(file.elements, kMostElements);
    for (uint32_t i = 0; i < std::max(elements, 1U); ++i) {
      scheduler::Job job = file.job;
      job.id = elements == 0 ? name : fmt::format("{}.{}", name, i);
      if (elements > 0) job.array = name;
      plan.asked.push_back(job.id);
      plan.changed.jobs.push_back({.job = std::move(job)});
    }
    parts_.push_back(fmt::format("the job {}", file.name));
  }

  std::string WhyNotTheirs(scheduler::Job& job) const {
    if (!job.tenant.empty()) job.tenant = PathOfTenant(call_, job.tenant);
    if (call_.May(Permission::kSimulate, job.tenant)) return {};
    return job.tenant.empty() ? "tenant: missing; you may ask for jobs of your own tenants only"
                              : fmt::format("tenant: you may ask for no jobs of \"{}\"", job.tenant);
  }

  static std::string FirstLeaf(const std::vector<scheduler::Queue>& queues) {
    const auto leaf = std::ranges::find_if(queues, [&](const scheduler::Queue& queue) {
      return std::ranges::find(queues, queue.name, &scheduler::Queue::parent) == queues.end();
    });
    return leaf == queues.end() ? std::string() : leaf->name;
  }

  // One that no job of the snapshot has, so that nothing is learned of the names of others.
  static std::string NewIdOf(const std::string& name, const Snapshot& snapshot) {
    std::string id = "your-" + name;
    const auto taken = [&](const scheduler::JobState& state) {
      return state.job.id == id || state.job.id.starts_with(id + ".");
    };
    while (std::ranges::any_of(snapshot.jobs, taken)) id += "'";
    return id;
  }

  const Operations& operations_;
  const Call& call_;
  WhatIf asked_;
  std::vector<std::string> parts_;
  std::vector<FieldProblem> problems_;
};

Answer NoSimulation(const Call& call) {
  return Refuse(api::Code::kNotFound, fmt::format("no simulation has the id \"{}\"", call.item),
                call.request_id);
}

bool SeesAll(const Call& call) {
  return call.caller.authority.MayEverywhere(Permission::kSimulate);
}

}  // namespace

Answer StartSimulation(const Operations& operations, const Call& call) {
  if (operations.simulations == nullptr)
    return Refuse(api::Code::kConflict, "this gateway simulates nothing", call.request_id);
  if (!SeesAll(call)) {
    for (const char* const member : {"add_nodes", "like", "quotas", "policy", "scaling"}) {
      if (!call.body.contains(member)) continue;
      return Refuse(
          api::Code::kPermissionDenied,
          fmt::format("{}: leads may only ask when a job of theirs would start; other questions are for "
                      "operators",
                      member),
          call.request_id);
    }
  }
  Question question(operations, call);
  WhatIf asked = question.Read();
  if (!question.problems().empty())
    return Refuse(api::Code::kInvalidValue, question.problems(), call.request_id);
  const absl::StatusOr<std::string> id = operations.simulations->Start(std::move(asked), call.now);
  if (!id.ok())
    return Refuse(api::Code::kOverloaded, std::string(conf::Std(id.status().message())), call.request_id);
  return Json(*operations.simulations->Show(*id, call.caller.actor, true), 202);
}

Answer ListSimulations(const Operations& operations, const Call& call) {
  std::vector<answers::Simulation> all;
  if (operations.simulations != nullptr) all = operations.simulations->List(call.caller.actor, SeesAll(call));
  return ListPage(std::move(all), &answers::Simulation::id, call);
}

Answer ShowSimulation(const Operations& operations, const Call& call) {
  if (operations.simulations == nullptr) return NoSimulation(call);
  const std::optional<answers::Simulation> found =
      operations.simulations->Show(call.item, call.caller.actor, SeesAll(call));
  return found ? Json(*found) : NoSimulation(call);
}

Answer CancelSimulation(const Operations& operations, const Call& call) {
  if (operations.simulations == nullptr) return NoSimulation(call);
  std::optional<answers::Simulation> found =
      operations.simulations->Show(call.item, call.caller.actor, SeesAll(call));
  if (!found) return NoSimulation(call);
  if (found->state == "running") found->state = "cancelled";
  operations.simulations->Cancel(call.item, call.caller.actor, SeesAll(call));
  return Json(*found);
}

}  // namespace gateway::admin
