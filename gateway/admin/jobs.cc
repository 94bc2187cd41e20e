// Jobs beside inference: handed in, listed, explained, read, ended; and the nodes and queues that they share
// with the replicas.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "conf/text.h"
#include "gateway/admin/answers/jobs.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/audit/ledger_query.h"
#include "gateway/config/job_file.h"
#include "gateway/config/sources.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/control/nodes/cordons.h"
#include "gateway/control/workloads/grant.h"

namespace gateway::admin {
namespace {

using answers::TextOrNull;
using control::Jobs;
using control::Workload;

constexpr size_t kDefaultLog = 64 * 1024;
constexpr size_t kShownHolders = 64;  // of one device

Answer NotThere(const Call& call) {
  if (call.runtime->config().scaling) {
    return Refuse(api::Code::kStarting,
                  "the gateway has just started and does not know yet what runs; try again in a moment",
                  call.request_id);
  }
  return Refuse(api::Code::kConflict, "this gateway runs no jobs: its configuration has no section scaling",
                call.request_id);
}

Answer NoSuchJob(const Operations& operations, const Call& call) {
  std::vector<const Workload*> elements = operations.jobs()->ElementsOf(call.item);
  std::erase_if(elements, [&](const Workload* element) {
    return !call.May(Permission::kSeeJobs, element->file().job.tenant);
  });
  return Refuse(api::Code::kNotFound,
                elements.empty() ? fmt::format("no job has the id \"{}\"", call.item)
                                 : fmt::format("{} is an array; name one of its elements, such as {}",
                                               call.item, elements.front()->id),
                call.request_id);
}

const std::string& TenantOf(const Workload& job) {
  return job.file().job.tenant;
}

// Null where there is none, and where it is none of the caller's.
const Workload* FindJob(const Operations& operations, const Call& call, Permission permission) {
  const Workload* const job = operations.jobs()->Find(call.item);
  return job != nullptr && call.May(permission, TenantOf(*job)) ? job : nullptr;
}

// A job of a tenant over which the caller may not submit any; empty: there is no such objection.
std::string WhyNotTheirs(const Call& call, const control::NewJob& job) {
  const auto loaded = config::ReadJobFile(job.text, job.file, config::ReferencesOnly(), job.parameters);
  if (!loaded.value) return {};  // its problems are told when it is submitted
  const std::string& tenant = loaded.value->job.tenant;
  if (call.May(Permission::kSubmitJobs, PathOfTenant(call, tenant))) return {};
  return tenant.empty() ? "tenant: missing; you may submit jobs of your own tenants only"
                        : fmt::format("tenant: you may submit no jobs of \"{}\"", tenant);
}

std::string_view WorkOf(const Workload& job) {
  return job.file().elements > 0 ? "array" : Name(job.file().job.work);
}

// Shares of devices count.
double InDevices(int64_t milli) {
  return static_cast<double>(milli) / scheduler::kWholeDevice;
}

int64_t FreeMilliOf(const scheduler::DeviceState& device, const scheduler::TypeView& view) {
  if (!device.healthy) return 0;
  return device.free_milli + (device.used_slots == 0 ? 0 : FreeComputeMilli(device, view));
}

std::vector<answers::JobMember> ShowMembers(const std::vector<control::Member>& members,
                                            const scheduler::Cluster& cluster) {
  std::vector<answers::JobMember> out;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const control::Member& member = members[rank];
    plugins::launchers::DeviceGrant grant;
    if (member.at.holding.node < cluster.nodes.size()) grant = control::GrantOf(cluster, member.at.holding);
    out.push_back({.rank = rank,
                   .run = member.run,
                   .node = grant.node,
                   .kind = TextOrNull(grant.kind),
                   .devices = {grant.devices.begin(), grant.devices.end()},
                   .state = std::string(MemberStateOf(member)),
                   .exit_code = member.exit_code,
                   .why = TextOrNull(member.signal ? HowEnded(member) : member.why)});
  }
  return out;
}

answers::Job ShowJob(const Workload& job) {
  const scheduler::Job& ask = job.file().job;
  return {.id = job.id,
          .name = job.file().name,
          .work = WorkOf(job),
          .state = JobStateOf(job),
          .since = {job.since},
          .reason = job.state == control::State::kPending && !job.unplaced.empty() ? job.unplaced : job.why,
          .queue = ask.queue,
          .tenant = TextOrNull(ask.tenant),
          .user = job.of->user,
          .priority = ask.priority,
          .submitted = {job.of->at},
          .members = job.holds() ? job.members.size() : 0,
          .min_members = MinMembers(ask),
          .max_members = scheduler::Members(ask),
          .devices = job.holds() ? job.devices() : 0,
          .attempt = job.attempt,
          .restarts = job.restarts,
          .moved = job.moved == conf::TimePoint() ? std::nullopt : answers::TimeOrNull(job.moved),
          .gain = TextOrNull(job.gain)};
}

std::vector<answers::NamedValue> ShowPairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<answers::NamedValue> out;
  out.reserve(pairs.size());
  for (const auto& [name, value] : pairs) out.push_back({name, value});
  return out;
}

answers::JobProvenance ShowProvenance(const control::Provenance& of) {
  return {.version = of.version,
          .configuration_sha256 = of.configuration,
          .file_sha256 = of.file,
          .command_sha256 = of.command,
          .image = TextOrNull(of.image),
          .seed = of.seed,
          .data = ShowPairs(of.data),
          .rerun_of = TextOrNull(of.rerun_of)};
}

answers::ComparedJob ShowCompared(const Workload& job, const scheduler::Cluster& cluster, const Call& call) {
  const control::SweepProgress& progress = job.progress;
  answers::ComparedJob out{.id = job.id,
                           .state = JobStateOf(job),
                           .seed = job.of->provenance.seed,
                           .step = progress.step,
                           .rungs = progress.rungs.size(),
                           .stopped = TextOrNull(progress.stopped),
                           .unread = TextOrNull(progress.unread),
                           .device_hours = job.DeviceSeconds(cluster, call.now) / 3600,
                           .attempt = job.attempt};
  if (progress.step) {
    out.value = progress.value;
    out.best = progress.best;
  }
  if (call.May(Permission::kReadOutput, TenantOf(job)))
    out.parameters = ShowPairs(config::ParametersOf(job.file(), job.element));
  std::set<std::string> kinds;
  for (const control::Member& member : job.members) {
    if (member.at.holding.node >= cluster.nodes.size()) continue;
    if (std::string kind = control::GrantOf(cluster, member.at.holding).kind; !kind.empty())
      kinds.insert(std::move(kind));
  }
  out.devices.assign(kinds.begin(), kinds.end());
  return out;
}

// A job's file has its variables.
answers::JobDetail ShowDetail(const Workload& job, const scheduler::Cluster& cluster, const Call& call) {
  answers::JobDetail out{.job = ShowJob(job), .runs = ShowMembers(job.members, cluster)};
  out.provenance = ShowProvenance(job.of->provenance);
  if (!call.May(Permission::kReadOutput, TenantOf(job))) return out;
  out.file = job.of->text;
  if (job.file().sweep) out.parameters = ShowPairs(config::ParametersOf(job.file(), job.element));
  return out;
}

// An array as a whole, as the job that was submitted.
answers::JobDetail ShowArray(const std::string& id, const std::vector<const Workload*>& elements,
                             const scheduler::Cluster& cluster, const Call& call) {
  answers::JobDetail out = ShowDetail(*elements.front(), cluster, call);
  const auto open = std::ranges::find_if_not(elements, &Workload::over);
  out.job.id = id;
  if (open != elements.end()) {
    out.job.state = JobStateOf(**open);
    out.job.reason = (*open)->why;
  }
  out.parameters.reset();
  out.job.members = 0;
  out.job.devices = 0;
  for (const Workload* const element : elements) {
    if (!element->holds()) continue;
    out.job.members += element->members.size();
    out.job.devices += element->devices();
  }
  out.job.max_members = scheduler::Members(elements.front()->file().job) * elements.size();
  out.runs.clear();
  return out;
}

// For the first time, or again.
net::Task<Answer> Submit(const Operations& operations, const Call& call, control::NewJob job) {
  if (const std::string why = WhyNotTheirs(call, job); !why.empty())
    co_return Refuse(api::Code::kPermissionDenied, why, call.request_id);
  const absl::StatusOr<control::Submitted> submitted =
      co_await operations.jobs()->Submit(std::move(job), call.caller.actor);
  if (!submitted.ok()) co_return Refuse(submitted.status(), call.request_id);
  if (!submitted->problems.empty()) {
    std::vector<FieldProblem> problems;
    problems.reserve(submitted->problems.size());
    for (const conf::Problem& problem : submitted->problems) problems.push_back({"job", ToString(problem)});
    co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  }
  if (!submitted->used_up.empty())
    co_return Refuse(api::Code::kInsufficientQuota, submitted->used_up, call.request_id);
  co_return Json(answers::JobSubmission{.jobs = submitted->jobs, .differences = submitted->differences}, 201);
}

}  // namespace

net::Task<Answer> SubmitJob(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) co_return NotThere(call);
  const std::string file = call.Text("file");
  co_return co_await Submit(
      operations, call,
      {.text = call.Text("job"), .file = file.empty() ? "job" : file, .parameters = call.Text("parameters")});
}

net::Task<Answer> RerunJob(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) co_return NotThere(call);
  const Workload* job = FindJob(operations, call, Permission::kSeeJobs);
  if (job == nullptr) {
    const std::vector<const Workload*> elements = operations.jobs()->ElementsOf(call.item);
    if (elements.empty() || !call.May(Permission::kSeeJobs, TenantOf(*elements.front())))
      co_return NoSuchJob(operations, call);
    job = elements.front();
  } else if (job->file().elements > 0) {
    co_return Refuse(
        api::Code::kConflict,
        fmt::format("{0} is an element of the array {1}; rerun {1}, which runs all elements again", job->id,
                    job->of->id),
        call.request_id);
  }
  co_return co_await Submit(operations, call,
                            {.text = job->of->text,
                             .file = job->of->file.file,
                             .parameters = job->of->parameters,
                             .rerun_of = job->of->id});
}

Answer ListJobs(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) return NotThere(call);
  const std::string state = call.Query("state");
  const std::string queue = call.Query("queue");
  const std::string tenant = PathOfTenant(call, call.Query("tenant"));
  if (!state.empty() && state != "open" && !control::IsJobState(state)) {
    return Refuse(api::Code::kInvalidValue,
                  std::vector<FieldProblem>{{"state", fmt::format("\"{}\" is not a state of a job", state)}},
                  call.request_id);
  }
  // The next page begins after the last job of this one, wherever that job is by then: the list may change.
  const std::vector<const Workload*> jobs = operations.jobs()->all();
  std::vector<answers::Job> all;
  auto at = std::ranges::find(jobs, call.Query("after"), &Workload::id);
  if (at == jobs.end()) {
    at = jobs.begin();
  } else {
    all.push_back({.id = (*at++)->id});
  }
  for (; at != jobs.end() && all.size() < kMaxPage + 2; ++at) {
    const Workload& job = **at;
    if (state == "open" ? job.over() : !state.empty() && JobStateOf(job) != state) continue;
    if (!queue.empty() && job.file().job.queue != queue) continue;
    if (!IsWithin(TenantOf(job), tenant) || !call.May(Permission::kSeeJobs, TenantOf(job))) continue;
    all.push_back(ShowJob(job));
  }
  return ListPage(std::move(all), &answers::Job::id, call);
}

Answer ShowOneJob(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) return NotThere(call);
  const Workload* const job = FindJob(operations, call, Permission::kSeeJobs);
  if (job == nullptr) return NoSuchJob(operations, call);
  return Json(ShowDetail(*job, operations.jobs()->cluster(), call));
}

Answer CompareJobs(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) return NotThere(call);
  constexpr size_t kMostCompared = 1000;
  std::vector<const Workload*> jobs;
  const std::vector<std::string> names = SplitList(call.Query("jobs"));
  for (const std::string& name : names) {
    std::vector<const Workload*> found = operations.jobs()->ElementsOf(name);
    if (const Workload* const one = operations.jobs()->Find(name)) found.push_back(one);
    std::erase_if(found,
                  [&](const Workload* job) { return !call.May(Permission::kSeeJobs, TenantOf(*job)); });
    if (found.empty())
      return Refuse(api::Code::kNotFound, fmt::format("no job, array or sweep has the id \"{}\"", name),
                    call.request_id);
    jobs.insert(jobs.end(), found.begin(), found.end());
  }
  if (jobs.size() > kMostCompared) {
    return Refuse(api::Code::kInvalidValue,
                  std::vector<FieldProblem>{
                      {"jobs", fmt::format("names {} jobs, at most {} fit", jobs.size(), kMostCompared)}},
                  call.request_id);
  }
  std::ranges::sort(jobs, [](const Workload* a, const Workload* b) {
    return std::pair(a->of->number, a->element) < std::pair(b->of->number, b->element);
  });
  jobs.erase(std::ranges::unique(jobs).begin(), jobs.end());
  answers::JobComparison out;
  std::set<std::pair<std::string, bool>> metrics;
  for (const Workload* const job : jobs) {
    const std::optional<config::Sweep>& sweep = job->file().sweep;
    if (sweep && sweep->metric) metrics.emplace(sweep->metric->name, sweep->metric->maximize);
    out.jobs.push_back(ShowCompared(*job, operations.jobs()->cluster(), call));
    out.device_hours += out.jobs.back().device_hours;
  }
  if (metrics.size() != 1) return Json(out);
  out.metric = metrics.begin()->first;
  out.maximize = metrics.begin()->second;
  const answers::ComparedJob* leads = nullptr;
  for (const answers::ComparedJob& job : out.jobs) {
    if (!job.best) continue;
    if (leads == nullptr || (out.maximize ? *job.best > *leads->best : *job.best < *leads->best))
      leads = &job;
  }
  if (leads != nullptr) out.leads = leads->id;
  return Json(out);
}

Answer ExplainJob(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) return NotThere(call);
  const Workload* const job = FindJob(operations, call, Permission::kSeeJobs);
  if (job == nullptr) return NoSuchJob(operations, call);
  return Json(answers::JobExplanation{
      .id = job->id, .state = JobStateOf(*job), .text = operations.jobs()->Explain(*job)});
}

net::Task<Answer> ReadJobLog(const Operations& operations, const Call& call) {
  if (operations.jobs() == nullptr) co_return NotThere(call);
  uint64_t rank = 0;
  uint64_t bytes = kDefaultLog;
  uint64_t from = 0;
  std::vector<FieldProblem> problems;
  for (const auto& [name, out, most] : {std::tuple("rank", &rank, uint64_t{UINT32_MAX}),
                                        std::tuple("bytes", &bytes, uint64_t{control::kMostLog}),
                                        std::tuple("from", &from, uint64_t{INT64_MAX})}) {
    const std::string text = call.Query(name);
    if (text.empty()) continue;
    const std::optional<uint64_t> number = conf::ReadNumber<uint64_t>(text);
    if (number && *number <= most) {
      *out = *number;
    } else {
      problems.push_back({name, fmt::format("\"{}\" is not a whole number up to {}", text, most)});
    }
  }
  const std::string attempt = call.Query("attempt");
  if (!attempt.empty() && attempt != "last" && attempt != "before")
    problems.push_back({"attempt", fmt::format("\"{}\" must be last or before", attempt)});
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  control::WhichLog which{.rank = static_cast<uint32_t>(rank), .before = attempt == "before", .bytes = bytes};
  if (!call.Query("from").empty()) which.from = from;
  const Workload* const job = FindJob(operations, call, Permission::kReadOutput);
  if (job == nullptr) co_return NoSuchJob(operations, call);
  const uint32_t nth = job->attempt - (which.before ? 1 : 0);
  const bool over = job->over();
  const absl::StatusOr<control::JobLog> log = co_await operations.jobs()->Log(call.item, which);
  if (!log.ok()) co_return Refuse(log.status(), call.request_id);
  co_return Json(answers::JobLog{.id = call.item,
                                 .rank = rank,
                                 .attempt = nth,
                                 .over = over,
                                 .cut = log->cut,
                                 .next = log->next,
                                 .text = log->text});
}

namespace {

// The job, or every element of the array; what is not there is for the change itself to say.
bool MayChange(const Operations& operations, const Call& call) {
  std::vector<const Workload*> jobs = operations.jobs()->ElementsOf(call.item);
  if (const Workload* const job = operations.jobs()->Find(call.item)) jobs.push_back(job);
  return std::ranges::all_of(
      jobs, [&](const Workload* job) { return call.May(Permission::kChangeJobs, TenantOf(*job)); });
}

net::Task<Answer> Change(const Operations& operations, const Call& call,
                         net::Task<absl::Status> (Jobs::*change)(std::string, std::string)) {
  if (operations.jobs() == nullptr) co_return NotThere(call);
  if (!MayChange(operations, call)) co_return NoSuchJob(operations, call);
  const absl::Status changed = co_await (operations.jobs()->*change)(call.item, call.caller.actor);
  if (!changed.ok()) co_return Refuse(changed, call.request_id);
  const scheduler::Cluster& cluster = operations.jobs()->cluster();
  if (const Workload* const job = operations.jobs()->Find(call.item))
    co_return Json(ShowDetail(*job, cluster, call));
  const std::vector<const Workload*> elements = operations.jobs()->ElementsOf(call.item);
  if (elements.empty()) co_return NoSuchJob(operations, call);
  co_return Json(ShowArray(call.item, elements, cluster, call));
}

}  // namespace

net::Task<Answer> CancelJob(const Operations& operations, const Call& call) {
  return Change(operations, call, &Jobs::Cancel);
}
net::Task<Answer> SuspendJob(const Operations& operations, const Call& call) {
  return Change(operations, call, &Jobs::Suspend);
}
net::Task<Answer> ResumeJob(const Operations& operations, const Call& call) {
  return Change(operations, call, &Jobs::Resume);
}

namespace {

// What is said of nodes and devices beside the planner's own books.
struct Sayings {
  Sayings(const control::Status& status, conf::TimePoint at) : telemetry(status.telemetry), now(at) {
    if (telemetry != nullptr) {
      for (const control::DeviceState& of : telemetry->devices) measured[{of.node, of.device}] = &of;
    }
    for (const control::NodeStatus& doubt : status.nodes) nodes[doubt.node] = doubt.why;
    for (const plugins::launchers::DeviceFault& fault : status.faults)
      devices[{fault.node, fault.device}] = fault.why;
    for (const control::Cordon& cordon : status.cordons) {
      const std::string why = control::WhyOf(cordon);
      if (cordon.device) {
        cordoned_devices[{cordon.node, *cordon.device}] = why;
      } else {
        cordoned_nodes[cordon.node] = why;
        if (cordon.drains) drained_nodes.insert(cordon.node);
      }
    }
  }

  // An operator's word, and what else is said.
  template <class Key>
  static std::string Why(const std::map<Key, std::string>& cordoned, const std::map<Key, std::string>& said,
                         const Key& key) {
    const auto by = cordoned.find(key);
    const auto also = said.find(key);
    if (by == cordoned.end()) return also == said.end() ? std::string() : also->second;
    return also == said.end() ? by->second : fmt::format("{}; {}", by->second, also->second);
  }

  using Device = std::pair<std::string, size_t>;
  std::map<std::string, std::string> nodes, cordoned_nodes;
  std::map<Device, std::string> devices, cordoned_devices;
  std::set<std::string> drained_nodes;
  std::shared_ptr<const control::TelemetryStatus> telemetry;
  std::map<Device, const control::DeviceState*> measured;
  conf::TimePoint now{};
};

answers::DeviceMeasures ShowMeasures(const control::DeviceState& of, conf::TimePoint now) {
  const plugins::devices::Reading& reading = of.reading;
  answers::DeviceMeasures out{
      .as_of = {of.as_of}, .old = !of.fresh(now), .source = of.source, .lost = reading.lost};
  out.utilization = reading.utilization;
  out.memory_used_mib = reading.memory_used_mib;
  out.memory_total_mib = reading.memory_total_mib;
  out.power_watts = reading.watts;
  out.power_limit_watts = reading.watts_limit;
  out.temperature_celsius = reading.celsius;
  out.clock_mhz = reading.clock_mhz;
  out.memory_clock_mhz = reading.memory_clock_mhz;
  if (reading.throttling) {
    if (reading.throttling->power_cap) out.slowed_by.emplace_back("power_cap");
    if (reading.throttling->thermal) out.slowed_by.emplace_back("heat");
    if (reading.throttling->power_brake) out.slowed_by.emplace_back("power_brake");
    if (reading.throttling->slowdown) out.slowed_by.emplace_back("hardware");
  }
  out.ecc_corrected = reading.ecc_corrected;
  out.ecc_uncorrected = reading.ecc_uncorrected;
  out.link_errors = reading.link_errors;
  out.energy_kwh = static_cast<double>(of.energy_mj) / kMillijoulesPerKwh;
  out.energy_resets = of.energy_resets;
  out.energy_gap_seconds = conf::ToSeconds(of.energy_gaps);
  for (const plugins::devices::DeviceProcess& process : reading.processes)
    out.processes.push_back({process.pid, process.memory_mib});
  out.errors = reading.errors;
  return out;
}

answers::Node ShowNode(const scheduler::Planner& planner, scheduler::NodeId id, const Sayings& sayings) {
  const scheduler::ClusterState& state = planner.state();
  const scheduler::Cluster& cluster = state.cluster();
  const scheduler::NodeType& type = cluster.type_of(id);
  const scheduler::NodeState& node = state.node(id);
  const std::string& name = cluster.nodes[id].name;
  std::vector<std::vector<std::string>> holders(type.devices);
  for (const scheduler::MemberId member : state.on(id)) {
    const scheduler::Member& held = state.member(member);
    for (size_t d = 0; d < holders.size(); ++d) {
      if ((held.holding.devices >> d & 1) != 0 && holders[d].size() < kShownHolders)
        holders[d].push_back(planner.jobs()[held.job].job.id);
    }
  }
  const bool node_cordoned = sayings.cordoned_nodes.contains(name);
  answers::Node out{.name = name,
                    .health = sayings.drained_nodes.contains(name)
                                  ? state.on(id).empty() ? "drained" : "draining"
                              : node_cordoned ? std::string_view("cordoned")
                                              : Name(state.health(id)),
                    .health_reason = TextOrNull(Sayings::Why(sayings.cordoned_nodes, sayings.nodes, name)),
                    .kind = TextOrNull(type.devices > 0 ? cluster.kinds[type.kind].name : ""),
                    .devices = type.devices,
                    .free = InDevices(FreeMilli(node, state.view_of(id)))};
  for (size_t d = 0; d < holders.size(); ++d) {
    std::ranges::sort(holders[d]);
    const Sayings::Device device(name, d);
    const bool cordoned = sayings.cordoned_devices.contains(device);
    const bool faulty = sayings.devices.contains(device);
    out.each.push_back({.device = d,
                        .healthy = node.device[d].healthy || (cordoned && !faulty),
                        .cordoned = cordoned,
                        .reason = TextOrNull(Sayings::Why(sayings.cordoned_devices, sayings.devices, device)),
                        .free = InDevices(FreeMilliOf(node.device[d], state.view_of(id))),
                        .held_by = holders[d]});
    const auto measured = sayings.measured.find(device);
    if (measured == sayings.measured.end()) continue;
    out.each.back().measured = ShowMeasures(*measured->second, sayings.now);
    if (measured->second->fresh(sayings.now) && measured->second->reading.watts)
      out.power_watts = out.power_watts.value_or(0) + *measured->second->reading.watts;
  }
  if (state.has_power_budgets() && std::isfinite(state.power_headroom(id)))
    out.power_headroom_watts = state.power_headroom(id);
  return out;
}

net::Task<Answer> ChangeCordon(const Operations& operations, const Call& call,
                               net::Task<absl::Status> (control::Cordons::*change)(control::Cordon)) {
  if (operations.cordons() == nullptr) co_return NotThere(call);
  control::Cordon cordon{
      .node = call.item, .reason = call.Text("reason"), .by = call.caller.actor, .since = call.now};
  if (const auto device = call.body.find("device"); device != call.body.end()) {
    const auto place = device->get<uint64_t>();
    if (place >= scheduler::kMaxDevices) {
      co_return Refuse(
          api::Code::kInvalidValue,
          std::vector<FieldProblem>{{"device", fmt::format("{} is not the number of a device: give 0 to {}",
                                                           place, scheduler::kMaxDevices - 1)}},
          call.request_id);
    }
    cordon.device = static_cast<uint8_t>(place);
  }
  const absl::Status changed = co_await (operations.cordons()->*change)(std::move(cordon));
  if (!changed.ok()) co_return Refuse(changed, call.request_id);
  const scheduler::Planner& planner = *operations.planner();
  const auto& nodes = planner.state().cluster().nodes;
  const auto node = std::ranges::find(nodes, call.item, &scheduler::Node::name);
  if (node == nodes.end()) {  // one that was lifted, of a node that the cluster does not have any more
    co_return Json(answers::Node{.name = call.item, .health = "gone"});
  }
  co_return Json(ShowNode(planner, static_cast<scheduler::NodeId>(node - nodes.begin()),
                          Sayings(operations.scaling(), call.now)));
}

}  // namespace

net::Task<Answer> CordonNode(const Operations& operations, const Call& call) {
  return ChangeCordon(operations, call, &control::Cordons::Set);
}
net::Task<Answer> DrainNode(const Operations& operations, const Call& call) {
  return ChangeCordon(operations, call, &control::Cordons::Drain);
}
net::Task<Answer> UndrainNode(const Operations& operations, const Call& call) {
  return ChangeCordon(operations, call, &control::Cordons::Undrain);
}
net::Task<Answer> UncordonNode(const Operations& operations, const Call& call) {
  return ChangeCordon(operations, call, &control::Cordons::Lift);
}

Answer ListNodes(const Operations& operations, const Call& call) {
  const scheduler::Planner* const planner = operations.planner();
  if (planner == nullptr) return NotThere(call);
  const Sayings sayings(operations.scaling(), call.now);
  std::vector<answers::Node> all;
  const size_t nodes = planner->state().cluster().nodes.size();
  all.reserve(nodes);
  for (scheduler::NodeId id = 0; id < nodes; ++id) all.push_back(ShowNode(*planner, id, sayings));
  return ListPage(std::move(all), &answers::Node::name, call);
}

Answer ListJobQueues(const Operations& operations, const Call& call) {
  const scheduler::Planner* const planner = operations.planner();
  if (planner == nullptr) return NotThere(call);
  const scheduler::QueueTree& tree = planner->queues();
  const scheduler::ClusterFigures figures = scheduler::FiguresOf(*planner, call.now);
  const std::map<std::string, control::RecentWaits> recent = operations.scaling().cluster.recent;
  const auto millis = [](double seconds) { return static_cast<int64_t>(seconds * 1e3); };
  std::vector<answers::JobQueue> all;
  for (scheduler::QueueIndex q = 0; q < tree.size(); ++q) {
    const scheduler::QueueFigures& of = figures.queues[q];
    answers::JobQueue& out = all.emplace_back();
    out.name = of.name;
    if (!of.parent.empty()) out.parent = of.parent;
    out.deserved = InDevices(of.deserved);
    out.share = InDevices(of.share);
    out.used = InDevices(of.used);
    out.asked = InDevices(of.asked);
    out.borrowed = InDevices(of.borrowed);
    out.lent = InDevices(of.lent);
    out.jobs_running = of.running;
    out.jobs_waiting = of.waiting;
    out.usage_device_hours = static_cast<double>(tree.QueueUsage(q)) / 3'600'000.0;
    if (of.waiting > 0) out.oldest_wait_ms = conf::ToMillis(of.oldest_wait);
    if (const auto waits = recent.find(of.name); waits != recent.end()) {
      out.started = waits->second.jobs;
      out.wait_p50_ms = millis(waits->second.p50);
      out.wait_p90_ms = millis(waits->second.p90);
    }
  }
  return ListPage(std::move(all), &answers::JobQueue::name, call);
}

Answer ListResources(const Operations& operations, const Call& call) {
  const scheduler::Planner* const planner = operations.planner();
  if (planner == nullptr) return NotThere(call);
  const scheduler::JobTable& jobs = planner->jobs();
  std::vector<answers::Resource> all;
  for (const scheduler::Resource& resource : planner->state().cluster().resources) {
    answers::Resource& out = all.emplace_back();
    out.name = resource.name;
    out.count = resource.count;
    out.held = planner->resources().held(resource.name);
    out.free = planner->resources().free(resource.name);
    for (scheduler::JobIndex job = 0; job < jobs.bound(); ++job) {
      const scheduler::JobEntry& entry = jobs[job];
      if (!entry.alive || AskedOf(entry.job.resources, resource.name) == 0) continue;
      const bool holds =
          entry.phase == scheduler::Phase::kRunning || entry.phase == scheduler::Phase::kStopping;
      if (!holds) {
        out.waiting += entry.phase == scheduler::Phase::kPending ? 1 : 0;
      } else if (out.held_by.size() < kShownHolders) {
        out.held_by.push_back(entry.job.id);
      }
    }
    std::ranges::sort(out.held_by);
  }
  return ListPage(std::move(all), &answers::Resource::name, call);
}

}  // namespace gateway::admin
