#include "gateway/control/jobs/jobs.h"

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/document.h"
#include "conf/json_dump.h"
#include "conf/placeholders.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/api/coded_status.h"
#include "gateway/config/cut_devices.h"
#include "gateway/config/device_kinds.h"
#include "gateway/config/never_fits.h"
#include "gateway/control/jobs/job_records.h"
#include "gateway/control/weights/node_weights.h"
#include "gateway/control/workloads/provenance.h"
#include "plugins/launchers/placeholders.h"
#include "plugins/weights/order.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kCheckBudgets = std::chrono::seconds(1);

ledger::Event AskedFor(std::string_view action, const Workload& job, std::string actor) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = std::move(actor);
  event.subject = job.id;
  event.tenant = job.file().job.tenant;
  event.detail = nlohmann::json{{"reason", "an operator asked for it"}, {"state", JobStateOf(job)}}.dump();
  return event;
}

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(conf::Abseil(fmt::format("no job has the id \"{}\"", id)));
}

absl::Status NotNow(const Workload& job, std::string_view what) {
  return absl::FailedPreconditionError(
      conf::Abseil(fmt::format("{} is {}, and {}", job.id, JobStateOf(job), what)));
}

// Progress, as far as it is saved.
std::string Progress(const Workload& job) {
  const conf::Duration kept = job.kept();
  if (job.over() || kept < std::chrono::seconds(1)) return {};
  const std::optional<conf::Duration>& estimate = job.file().job.estimate;
  if (!estimate) return fmt::format("Its checkpoint holds {} of work.", conf::InWords(kept));
  return fmt::format("Its checkpoint holds {} of its estimated run time of {}.", conf::InWords(kept),
                     conf::InWords(*estimate));
}

// "zone is eu-1 or eu-2 and tier is gold"
std::string InWords(const std::vector<scheduler::LabelRule>& rules) {
  std::vector<std::string> parts;
  parts.reserve(rules.size());
  for (const scheduler::LabelRule& rule : rules)
    parts.push_back(fmt::format("{} is {}", rule.key, fmt::join(rule.values, " or ")));
  return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace

Jobs::Jobs(const Context& context, Workloads& workloads, StepRunner& runner, Environment env)
    : context_(context),
      workloads_(workloads),
      runner_(runner),
      env_(std::move(env)),
      saves_(context, workloads, env_.off_loop),
      sweeps_(context, workloads, env_.off_loop, env_.run_user) {}

std::vector<const Workload*> Jobs::all() const {
  std::vector<const Workload*> jobs;
  for (const Workload& workload : workloads_.all()) {
    if (workload.kind == Kind::kJob) jobs.push_back(&workload);
  }
  return jobs;
}

const Workload* Jobs::Find(const std::string& id) const {
  const Workload* const found = std::as_const(workloads_).Find(id);
  return found == nullptr || found->kind != Kind::kJob ? nullptr : found;
}

std::vector<const Workload*> Jobs::ElementsOf(const std::string& array) const {
  std::vector<const Workload*> elements = std::as_const(workloads_).WithPrefix(array + ".");
  std::erase_if(elements, [&](const Workload* element) {
    return element->kind != Kind::kJob || element->of->id != array || element->file().elements == 0;
  });
  return elements;
}

Workload* Jobs::Get(const std::string& id) {
  Workload* const found = workloads_.Find(id);
  return found == nullptr || found->kind != Kind::kJob ? nullptr : found;
}

void Jobs::Tick() {
  const conf::TimePoint now = context_.now();
  for (Workload& workload : workloads_.all()) {
    if (workload.kind == Kind::kJob) Tick(workload, now);
  }
  saves_.Tick();
  sweeps_.Tick();
  CheckHeld();
  CheckBudgets();
  DropOver();
}

void Jobs::Tick(Workload& job, conf::TimePoint now) {
  if (job.state == State::kPlaced || job.state == State::kStarting) {
    if (now - job.since <= job.file().start_timeout) return;
    const auto there = [](const Member& member) { return member.running || member.ended; };
    const auto late = std::ranges::find_if_not(job.members, there);
    if (late == job.members.end()) return;
    const bool asked_in_vain = !late->started && !env_.nothing_starts().empty();
    Fail(job,
         fmt::format("member {} did not start within {}{}{}", late - job.members.begin(),
                     conf::InWords(job.file().start_timeout), late->why.empty() ? "" : ": ", late->why),
         asked_in_vain ? Blame::kPlace : Blame::kWorkload);
  } else if (job.state == State::kRunning) {
    const config::JobCheckpoint& by = job.file().checkpoint;
    const conf::Duration interval = job.file().job.checkpoint.interval;
    if (by.given && by.saved.empty() && now - std::max(job.checkpointed, job.since) >= interval)
      saves_.SavedNow(job, now);
  } else if (job.state == State::kSaving) {
    if (now - job.since < job.file().checkpoint.grace) return;
    if (job.file().checkpoint.saved.empty()) saves_.SavedNow(job, now);
    workloads_.StopSaving(job);
  }
}

// The jobs that ended first are removed when there are too many; a job file is removed with its last job.
void Jobs::DropOver() {
  std::vector<std::string> over;
  std::map<const Submission*, size_t> elements;
  for (const Workload& job : workloads_.all()) {
    if (job.kind != Kind::kJob) continue;
    ++elements[job.of.get()];
    if (job.over()) over.push_back(job.id);
  }
  for (size_t left = over.size(), i = 0; left > kKeptOver && i < over.size(); ++i) {
    Workload& job = *workloads_.Find(over[i]);
    if (job.busy || !job.saved) continue;
    const std::shared_ptr<const Submission> of = job.of;
    workloads_.Drop(job);
    if (--elements[of.get()] == 0) context_.store->Remove(*of);
    --left;
  }
}

// --- Submission ---

std::vector<conf::Problem> Jobs::Check(config::JobFile& job) const {
  const std::optional<std::string> tenant =
      job.job.tenant.empty() ? std::nullopt : env_.tenant_path(job.job.tenant);
  const std::vector<scheduler::Queue> queues = context_.planning->QueuesOf(tenant.value_or(""));
  std::vector<conf::Problem> problems = config::CheckJob(job, context_.cluster(), queues);
  const auto wrong = [&](std::string pointer, const std::string& value, std::string message) {
    problems.push_back({.file = job.file,
                        .pointer = std::move(pointer),
                        .line = 0,
                        .value = value,
                        .message = std::move(message)});
  };
  if (!job.job.tenant.empty()) {
    if (tenant) {
      job.job.tenant = *tenant;
    } else {
      wrong("/tenant", job.job.tenant, fmt::format("unknown tenant \"{}\"", job.job.tenant));
    }
  }
  if (const absl::Status may = context_.users->MayRun(job.job.tenant); !may.ok())
    wrong("/tenant", job.job.tenant, std::string(may.message()));
  for (const auto& [name, secret] : job.secret_env) {
    if (env_.may_name_secret(job.job.tenant, secret.reference())) continue;
    wrong(fmt::format("/secret_env/{}", name), secret.reference(),
          job.job.tenant.empty() ? "a job that names a secret needs a tenant whose job_secrets list it"
                                 : fmt::format("{} is not listed in job_secrets of tenant {}",
                                               secret.reference(), job.job.tenant));
  }
  for (size_t i = 0; i < job.job.after.size(); ++i) {
    const std::string& name = job.job.after[i];
    const bool known = Find(name) != nullptr || Find(name + ".0") != nullptr;
    if (known && PrecursorOf(name) != Precursor::kFailed) continue;
    wrong(fmt::format("/after/{}", i), name,
          known ? fmt::format("{} failed or was cancelled, so this job would never start", name)
                : fmt::format("no job has the id \"{}\"", name));
  }
  const std::optional<config::Pods> pods = env_.pods();
  if (!pods) {
    constexpr const char* kOnly = "has an effect only with launcher: kubernetes";
    if (!job.image.empty()) wrong("/image", job.image, kOnly);
    if (!job.pod.empty()) wrong("/pod", "", kOnly);
  } else {
    for (config::PodDefect& defect : config::FindPodDefects(job, *pods))
      wrong(std::move(defect.pointer), "", std::move(defect.why));
  }
  const std::vector<scheduler::DeviceAsk>& devices = job.job.roles.front().ask.devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::string why = env_.why_not_shared(devices[i]); !why.empty())
      wrong(fmt::format("/devices/{}", i), "", std::move(why));
    if (std::string cut = config::AsksForCut(devices[i], context_.planning->uncut()); !cut.empty())
      wrong(fmt::format("/devices/{}", i), devices[i].kinds.front(), std::move(cut));
  }
  CheckResidency(job, wrong);
  CheckData(job, wrong);
  if (job.job.queue.empty()) job.job.queue = context_.planning->first_queue();
  if (!problems.empty()) return problems;
  CheckFits(job, queues, wrong);
  return problems;
}

// The job's rule and the tenant's rule for a label must have a value in common: then both can hold.
void Jobs::CheckResidency(const config::JobFile& job, const Wrong& wrong) const {
  if (job.job.tenant.empty()) return;
  for (const scheduler::LabelRule& kept : env_.residency(job.job.tenant)) {
    for (const scheduler::LabelRule& asked : job.placing.require.rules) {
      if (asked.key != kept.key) continue;
      const bool common = std::ranges::any_of(asked.values, [&](const std::string& value) {
        return std::ranges::find(kept.values, value) != kept.values.end();
      });
      if (common) continue;
      wrong("/require/" + asked.key, fmt::format("{}", fmt::join(asked.values, ", ")),
            fmt::format("is outside the residency of tenant {}, whose jobs run where {} is {}",
                        job.job.tenant, kept.key, fmt::join(kept.values, " or ")));
    }
  }
}

void Jobs::CheckData(const config::JobFile& job, const Wrong& wrong) const {
  for (size_t i = 0; i < job.data.size(); ++i) {
    const std::string pointer = fmt::format("/data/{}", i);
    const std::optional<config::DataSet> data = env_.data_set(job.data[i]);
    if (data && config::MayName(*data, job.job.tenant)) continue;
    std::vector<std::string> known = env_.data_sets();
    std::erase_if(known, [&](const std::string& name) {
      const std::optional<config::DataSet> other = env_.data_set(name);
      return !other || !config::MayName(*other, job.job.tenant);
    });
    const std::vector<std::string_view> names(known.begin(), known.end());
    std::string hint = conf::DidYouMean(job.data[i], names);
    if (hint.empty())
      hint = names.empty() ? "; the configuration has none for this job"
                           : fmt::format("; there are {}", fmt::join(names, ", "));
    wrong(pointer, job.data[i], fmt::format("unknown data set \"{}\"{}", job.data[i], hint));
  }
  // The placeholder of a data set that `data` does not list would stay in the command, as the name of a folder.
  const auto is_named = [&](const std::string& placeholder) {
    const auto in = [&](const std::string& text) { return text.find(placeholder) != std::string::npos; };
    return std::ranges::any_of(job.command, in) || std::ranges::any_of(job.checkpoint.resume, in) ||
           std::ranges::any_of(job.env, [&](const auto& variable) { return in(variable.second); });
  };
  for (const std::string& name : env_.data_sets()) {
    const std::string placeholder = fmt::format("{{data.{}}}", name);
    if (std::ranges::find(job.data, name) == job.data.end() && is_named(placeholder))
      wrong("/data", name, fmt::format("lacks {}, which the job names as {}; add it", name, placeholder));
  }
}

void Jobs::CheckFits(const config::JobFile& job, const std::vector<scheduler::Queue>& queues,
                     const Wrong& wrong) const {
  scheduler::Job whole = job.job;
  for (scheduler::Role& role : whole.roles) config::AskForUncut(role.ask, context_.planning->uncut());
  if (auto never = config::FindNeverFits(context_.cluster(), queues, whole))
    return wrong(std::move(never->pointer), never->value, std::move(never->message));
  const std::vector<scheduler::LabelRule> residency = env_.residency(job.job.tenant);
  if (residency.empty()) return;
  for (scheduler::Role& role : whole.roles)
    role.ask.require.insert(role.ask.require.end(), residency.begin(), residency.end());
  const auto never = config::FindNeverFits(context_.cluster(), queues, std::move(whole));
  if (!never) return;
  wrong("/tenant", job.job.tenant,
        fmt::format("the residency of the tenant allows nodes where {}, and these cannot hold the job: {}",
                    InWords(residency), never->message));
}

absl::StatusOr<std::vector<config::DataSet>> Jobs::DataOf(const config::JobFile& job) const {
  std::vector<config::DataSet> sets;
  for (const std::string& name : job.data) {
    std::optional<config::DataSet> data = env_.data_set(name);
    if (!data || !config::MayName(*data, job.job.tenant)) {
      return absl::FailedPreconditionError(conf::Abseil(
          fmt::format("data/{}: the configuration no longer has this data set for the job", name)));
    }
    sets.push_back(*std::move(data));
  }
  return sets;
}

absl::Status Jobs::HasRoomFor(size_t count, size_t bytes) const {
  size_t open = coming_;
  size_t text = coming_bytes_ + bytes;
  const Submission* last = nullptr;
  for (const Workload& job : workloads_.all()) {
    if (job.kind != Kind::kJob) continue;
    open += job.over() ? 0 : 1;
    // The elements of a submission are next to each other in the list.
    if (job.of.get() != last) text += job.of->text.size() + job.of->parameters.size();
    last = job.of.get();
  }
  std::string full;
  if (open + count > kMostJobs) {
    full = fmt::format("{} jobs have not ended; with {} more they would exceed the limit of {}", open, count,
                       kMostJobs);
  } else if (text > kMostText) {
    full = fmt::format(
        "the job files of all jobs would take {} bytes, above the limit of {}; the files of the "
        "last {} ended jobs count, too",
        text, kMostText, kKeptOver);
  }
  if (!full.empty())
    return api::WithCode(absl::ResourceExhaustedError(conf::Abseil(full)), api::Code::kTooManyJobs);
  return absl::OkStatus();
}

std::vector<Workload> Jobs::JobsOf(const std::shared_ptr<const Submission>& submission) const {
  const config::JobFile& file = submission->file;
  std::vector<Workload> made(std::max(1U, file.elements));
  for (uint32_t element = 0; element < made.size(); ++element) {
    Workload& one = made[element];
    one.id = file.elements > 0 ? fmt::format("{}.{}", submission->id, element) : submission->id;
    one.kind = Kind::kJob;
    one.of = submission;
    one.element = element;
    one.since = one.wanted = submission->at;
    one.why = "it waits for devices";
    one.actor = submission->user;
    one.recorded = one.saved = true;
  }
  return made;
}

net::Task<absl::StatusOr<Submitted>> Jobs::Submit(NewJob job, std::string actor) {
  Submitted out;
  std::string& text = job.text;
  const std::string& file = job.file;
  // Secrets are looked up once it is clear that its tenant may name them: their absence is a secret, too.
  auto loaded = config::ReadJobFile(text, file, config::ReferencesOnly(), job.parameters);
  out.problems = std::move(loaded.problems);
  if (loaded.value) out.problems = Check(*loaded.value);
  if (out.problems.empty()) {
    loaded = config::ReadJobFile(text, file, env_.sources, job.parameters);
    out.problems = std::move(loaded.problems);
    if (loaded.value) out.problems = Check(*loaded.value);
  }
  conf::AddLines(text, out.problems);
  if (!out.problems.empty()) co_return out;
  out.used_up = UsedUp(*loaded.value);
  if (!out.used_up.empty()) co_return out;

  const size_t count = std::max(1U, loaded.value->elements);
  const size_t bytes = text.size() + job.parameters.size();
  if (absl::Status room = HasRoomFor(count, bytes); !room.ok()) co_return room;
  if (const std::string why = env_.no_room(); !why.empty())
    co_return absl::UnavailableError(fmt::format("no job is accepted: {}", why));
  coming_ += count;
  coming_bytes_ += bytes;
  const absl::Cleanup come = [&] {
    coming_ -= count;
    coming_bytes_ -= bytes;
  };

  auto submission = std::make_shared<Submission>();
  submission->number = ++last_number_;
  submission->id = fmt::format("{}-{}", loaded.value->name, submission->number);
  submission->text = std::move(text);
  submission->parameters = std::move(job.parameters);
  submission->file = *std::move(loaded.value);
  submission->user = actor;
  submission->at = context_.now();
  submission->provenance = ProvenanceOf(*submission, env_.configuration(), [this](const std::string& name) {
    const std::optional<config::DataSet> data = env_.data_set(name);
    return data ? data->from.digest : std::string();
  });
  if (!job.rerun_of.empty()) TakeOver(*submission, job.rerun_of, out);
  std::vector<Workload> made = JobsOf(submission);

  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = "job.submit";
  event.actor = std::move(actor);
  event.subject = submission->id;
  event.tenant = submission->file.job.tenant;
  event.detail = DetailOfSubmission(*submission, count);
  std::string stored;
  if (context_.shared) {
    stored = context_.store->Put(std::move(event));
  } else if (absl::Status recorded = co_await context_.record(std::move(event)); !recorded.ok()) {
    co_return recorded;
  }
  if (absl::Status kept = co_await SaveNew(*submission, made); !kept.ok()) {
    context_.store->RemoveEvent(stored);
    co_return kept;
  }
  for (Workload& one : made) {
    out.jobs.push_back(one.id);
    workloads_.AskPlanner(workloads_.Add(std::move(one)));
  }
  context_.wake();
  co_return out;
}

// Takes the seed of the job that is run again, if that job is still known, and collects the differences.
void Jobs::TakeOver(Submission& submission, const std::string& rerun_of, Submitted& out) const {
  submission.provenance.rerun_of = rerun_of;
  std::vector<const Workload*> earlier = ElementsOf(rerun_of);
  if (const Workload* const one = Find(rerun_of)) earlier.push_back(one);
  if (earlier.empty()) return;
  const Submission& before = *earlier.front()->of;
  submission.provenance.seed = before.provenance.seed;
  out.differences = Differences(before, submission, cluster(), earlier);
}

// All jobs are stored, or none.
net::Task<absl::Status> Jobs::SaveNew(const Submission& submission, const std::vector<Workload>& made) {
  context_.store->Put(submission);
  for (const Workload& one : made) context_.store->Put(one);
  absl::Status kept = co_await context_.store->Flush();
  if (kept.ok()) co_return kept;
  // The next write takes back what this one may have written.
  context_.store->Remove(submission);
  for (const Workload& one : made) context_.store->Remove(one);
  co_return kept;
}

// --- Requests of operators ---

// Before the change is in the store. Where the store is shared, the event is written with the change, which is refused
// where another gateway leads: the ledger gets it from there.
net::Task<absl::Status> Jobs::Record(ledger::Event event) {
  if (!context_.shared) co_return co_await context_.record(std::move(event));
  context_.store->Put(std::move(event));
  co_return absl::OkStatus();
}

net::Task<absl::Status> Jobs::Cancel(std::string id, std::string actor) {
  Workload* job = Get(id);
  if (job == nullptr) co_return co_await CancelArray(std::move(id), std::move(actor));
  if (job->over()) co_return NotNow(*job, "can no longer be cancelled");
  if (!job->holds()) {
    if (absl::Status recorded = co_await Record(AskedFor("job.cancel", *job, actor)); !recorded.ok())
      co_return recorded;
    job = Get(id);
    if (job == nullptr || job->over()) co_return NoSuchJob(id);
  }
  CancelNow(*job, actor);
  co_return co_await runner_.Save(id);
}

void Jobs::CancelNow(Workload& job, const std::string& actor) {
  if (!job.holds()) {
    workloads_.LeavePlanner(job);
    workloads_.Stop(job, Outcome::kCancelled, fmt::format("cancelled by {}", actor), actor);
  } else {
    workloads_.End(job, Afterwards::kCancels, fmt::format("cancelled by {}", actor), actor);
  }
}

// All elements that have not ended: one record of the ledger, one write of the store.
net::Task<absl::Status> Jobs::CancelArray(std::string id, std::string actor) {
  std::vector<std::string> open;
  const std::vector<const Workload*> elements = ElementsOf(id);
  if (elements.empty()) co_return NoSuchJob(id);
  for (const Workload* const element : elements) {
    if (!element->over()) open.push_back(element->id);
  }
  if (open.empty()) {
    co_return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("all elements of {} have ended, and can no longer be cancelled", id)));
  }
  ledger::Event event = AskedFor("job.cancel", *Find(open.front()), actor);
  event.subject = id;
  event.detail = nlohmann::json{{"reason", "an operator asked for it"}, {"jobs", open.size()}}.dump();
  if (absl::Status recorded = co_await Record(std::move(event)); !recorded.ok()) co_return recorded;
  for (const std::string& element : open) {
    Workload* const job = Get(element);
    if (job == nullptr || job->over()) continue;
    CancelNow(*job, actor);
    context_.store->Put(*job);
  }
  co_return co_await context_.store->Flush();
}

net::Task<absl::Status> Jobs::Suspend(std::string id, std::string actor) {
  Workload* job = Get(id);
  if (job == nullptr) co_return NoSuchJob(id);
  if (job->over() || job->suspended()) co_return NotNow(*job, "cannot be suspended");
  if (!job->holds()) {
    if (absl::Status recorded = co_await Record(AskedFor("job.suspend", *job, actor)); !recorded.ok())
      co_return recorded;
    job = Get(id);
    if (job == nullptr || job->over()) co_return NoSuchJob(id);
  }
  if (job->state == State::kPending) {
    workloads_.LeavePlanner(*job);
    workloads_.Stop(*job, Outcome::kSuspended, fmt::format("suspended by {}", actor), actor);
  } else {
    workloads_.End(*job, Afterwards::kSuspends, fmt::format("suspended by {}", actor), actor);
  }
  co_return co_await runner_.Save(id);
}

net::Task<absl::Status> Jobs::Resume(std::string id, std::string actor) {
  Workload* job = Get(id);
  if (job == nullptr) co_return NoSuchJob(id);
  if (!job->suspended()) co_return NotNow(*job, "only a suspended job can be resumed");
  if (absl::Status recorded = co_await Record(AskedFor("job.resume", *job, actor)); !recorded.ok())
    co_return recorded;
  job = Get(id);
  if (job == nullptr) co_return NoSuchJob(id);
  if (job->suspended()) {
    workloads_.Enter(*job, State::kPending, fmt::format("resumed by {}: it waits for devices", actor), actor);
    workloads_.AskPlanner(*job);
  }
  co_return co_await runner_.Save(id);
}

net::Task<absl::StatusOr<JobLog>> Jobs::Log(std::string id, WhichLog which) {
  const Workload* job = Find(id);
  if (job == nullptr) co_return NoSuchJob(id);
  const std::vector<Member>& members = which.before ? job->before : job->members;
  if (members.empty())
    co_return NotNow(*job, which.before ? "had no earlier attempt" : "has not been started yet");
  if (which.rank >= members.size()) {
    co_return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("rank {}: {} has the ranks 0 to {}", which.rank, id, members.size() - 1)));
  }
  const std::string path = members[which.rank].log;
  if (path.empty()) {
    const absl::StatusOr<std::string> text = co_await context_.launcher->ReadLog(members[which.rank].run);
    if (text.ok()) co_return PartOfLog(*text, which);
    if (!absl::IsUnimplemented(text.status())) co_return text.status();
    job = Find(id);
    if (job == nullptr) co_return NoSuchJob(id);
    co_return NotNow(*job, "its launcher does not report where its output is");
  }
  absl::StatusOr<JobLog> log = JobLog();
  (co_await env_.off_loop([&] {
    log = ReadJobLog(path, which, env_.log_owner);
    return absl::OkStatus();
  })).IgnoreError();
  co_return log;
}

std::vector<std::string> Jobs::Explain(const Workload& job) const {
  std::vector<std::string> out = {
      fmt::format("{} is {} since {}: {}.", job.id, JobStateOf(job), conf::FormatTime(job.since), job.why)};
  if (std::string progress = Progress(job); !progress.empty()) out.push_back(std::move(progress));
  if (std::string sentence = SweepInWords(job); !sentence.empty()) out.push_back(std::move(sentence));
  if (job.moved != conf::TimePoint() && !job.over() && !job.moves())
    out.push_back(fmt::format("It moved at {}: it {}.", conf::FormatTime(job.moved), job.gain));
  if (job.state != State::kPending) {
    for (size_t rank = 0; job.holds() && rank < job.members.size(); ++rank) {
      const Member& member = job.members[rank];
      if (!member.why.empty()) out.push_back(fmt::format("Member {}: {}.", rank, member.why));
    }
    return out;
  }
  if (job.withheld || ArrayIsFull(job)) out.push_back(fmt::format("It is not placed: {}.", job.unplaced));
  if (job.held) {
    if (const std::vector<std::string> awaits = Awaits(job); !awaits.empty())
      out.push_back(fmt::format("It waits for {}, which has not ended.", fmt::join(awaits, ", ")));
    if (!job.crashes.MayStart(context_.now()))
      out.push_back(fmt::format("The next attempt starts at {}.", conf::FormatTime(job.crashes.next())));
    return out;
  }
  if (const std::string why = env_.nothing_starts(); !why.empty()) {
    out.push_back(fmt::format("Nothing starts: {}.", why));
    return out;
  }
  if (ArrayIsFull(job)) return out;
  std::vector<std::string> sentences = context_.planning->Explain(job.id, context_.now());
  if (sentences.empty()) return out;
  if (!job.unplaced.empty()) out.push_back(fmt::format("The last planning cycle: {}.", job.unplaced));
  if (const std::vector<scheduler::LabelRule> residency = env_.residency(job.file().job.tenant);
      !residency.empty()) {
    out.push_back(fmt::format("The residency of tenant {} keeps it to nodes where {}.", job.file().job.tenant,
                              InWords(residency)));
  }
  std::ranges::move(sentences, std::back_inserter(out));
  std::ranges::move(env_.doubts(), std::back_inserter(out));
  return out;
}

// The array's limit of running elements is reached: free devices would not help.
bool Jobs::ArrayIsFull(const Workload& job) const {
  const uint32_t most = job.file().job.max_running;
  if (most == 0 || job.unplaced.empty() || job.file().elements == 0) return false;
  const std::vector<const Workload*> elements = ElementsOf(job.of->id);
  return std::ranges::count_if(elements, &Workload::holds) >= static_cast<ptrdiff_t>(most);
}

// --- Dependencies, and limits of tenants ---

Jobs::Precursor Jobs::PrecursorOf(const std::string& name) const {
  Precursor all = Precursor::kDone;  // a forgotten job had ended well, or this one would have failed by then
  const auto count = [&all](const Workload& job) {
    if (job.over() && job.outcome != Outcome::kDone) all = Precursor::kFailed;
    if (!job.over() && all == Precursor::kDone) all = Precursor::kOpen;
  };
  if (const Workload* const job = Find(name)) count(*job);
  for (const Workload* const element : std::as_const(workloads_).WithPrefix(name + ".")) {
    if (element->kind == Kind::kJob) count(*element);
  }
  return all;
}

std::vector<std::string> Jobs::Awaits(const Workload& job) const {
  std::vector<std::string> names;
  for (const std::string& name : job.file().job.after) {
    if (PrecursorOf(name) != Precursor::kDone) names.push_back(name);
  }
  return names;
}

// Jobs whose dependencies have ended, or can never end well.
void Jobs::CheckHeld() {
  const conf::TimePoint now = context_.now();
  const bool some_ended = std::exchange(ended_, workloads_.ended()) != workloads_.ended();
  std::map<std::string_view, Precursor> precursors;  // many come after the same array
  for (Workload& job : workloads_.all()) {
    if (job.kind != Kind::kJob || job.state != State::kPending || !job.held || !job.crashes.MayStart(now))
      continue;
    if (!some_ended && job.crashes.failures() == 0) continue;
    bool open = false;
    for (const std::string& name : job.file().job.after) {
      const auto [at, added] = precursors.try_emplace(name);
      if (added) at->second = PrecursorOf(name);
      open |= at->second == Precursor::kOpen;
      if (at->second != Precursor::kFailed) continue;
      workloads_.Stop(job, Outcome::kFailed, fmt::format("its dependency {} failed or was cancelled", name));
      break;
    }
    if (!open && job.state == State::kPending) workloads_.AskPlanner(job);
  }
}

absl::StatusOr<std::string> Jobs::UserOf(const config::JobFile& file) const {
  std::vector<UserInUse> in_use;
  for (const Workload& workload : workloads_.all()) {
    if (workload.kind == Kind::kReplica) continue;
    for (const Member& member : workload.members) {
      if (!member.user.empty() && !member.ended)
        in_use.push_back({workload.of ? std::string_view(workload.file().job.tenant) : "", member.user});
    }
  }
  return context_.users->OfJob(file.job.tenant, in_use);
}

std::string Jobs::UsedUp(const config::JobFile& file) const {
  if (file.job.tenant.empty()) return {};
  std::vector<scheduler::DeviceAsk> asks;
  for (const scheduler::Role& role : file.job.roles)
    asks.insert(asks.end(), role.ask.devices.begin(), role.ask.devices.end());
  return env_.devices_used_up(file.job.tenant, config::KindsOf(cluster(), asks));
}

std::string Jobs::WhyWithheld(const config::JobFile& file) const {
  const absl::Status user = UserOf(file).status();
  return absl::IsUnavailable(user) ? std::string(conf::Std(user.message())) : UsedUp(file);
}

// A job that may not start yet is not given to the planner.
void Jobs::CheckBudgets() {
  const conf::TimePoint now = context_.now();
  if (now < next_budgets_) return;
  next_budgets_ = now + kCheckBudgets;
  std::map<const Submission*, std::string> known;  // elements of an array have the same answer
  for (Workload& job : workloads_.all()) {
    if (job.kind != Kind::kJob || job.state != State::kPending || job.held) continue;
    const auto [why, asked] = known.try_emplace(job.of.get());
    if (asked) why->second = WhyWithheld(job.file());
    if (why->second.empty()) {
      if (std::exchange(job.withheld, false)) workloads_.AskPlanner(job);
    } else {
      if (!std::exchange(job.withheld, true)) workloads_.LeavePlanner(job);
      job.unplaced = why->second;
    }
  }
}

// --- Differences from other workloads ---

scheduler::Job Jobs::AskOf(const Workload& job) const {
  scheduler::Job ask = job.file().job;
  ask.id = job.id;
  ask.user = job.of->user;
  ask.application = job.file().name;
  ask.submitted = job.of->at;
  if (ask.estimate && job.done > conf::Duration::zero()) {
    const conf::Duration left = *ask.estimate - job.done;
    ask.estimate = std::max<conf::Duration>(left, std::chrono::seconds(1)) + ask.checkpoint.restart;
  }
  const std::vector<scheduler::LabelRule> residency = env_.residency(ask.tenant);
  for (scheduler::Role& role : ask.roles) {
    config::AskForUncut(role.ask, context_.planning->uncut());
    role.ask.require.insert(role.ask.require.end(), residency.begin(), residency.end());
    for (const std::string& name : job.file().data) {
      if (const std::optional<config::DataSet> data = env_.data_set(name))
        role.ask.prefer.push_back(NodeWeights::Preference(data->from.digest));
    }
  }
  ask.after.clear();  // the planner gets the job only after these have ended
  if (job.file().elements > 0) ask.array = job.of->id;
  return ask;
}

bool Jobs::MayBePlaced(Workload& job) {
  job.held = !job.crashes.MayStart(context_.now()) || !Awaits(job).empty();
  if (job.held) return false;
  std::string why = WhyWithheld(job.file());
  job.withheld = !why.empty();
  if (job.withheld) job.unplaced = std::move(why);
  return !job.withheld;
}

absl::StatusOr<plugins::launchers::RunSpec> Jobs::SpecOf(const Workload& job, uint32_t rank) const {
  const config::JobFile& file = job.file();
  plugins::launchers::RunSpec spec;
  spec.owner = job.id;
  spec.tenant = file.job.tenant;
  const config::ParameterSet& parameters = config::ParametersOf(file, job.element);
  absl::StatusOr<std::vector<config::DataSet>> data = DataOf(file);
  if (!data.ok()) return data.status();
  if (!data->empty()) {
    spec.weights = env_.data_step(*data, NodeOf(context_.cluster(), job.members[rank].at));
    if (!spec.weights)
      return absl::FailedPreconditionError("data: the nodes have no store; give scaling.weights.store");
  }
  std::vector<std::pair<std::string, std::string>> folders;  // of its data sets, by their placeholders
  for (const config::DataSet& one : *data) {
    folders.emplace_back(fmt::format("data.{}", one.name),
                         plugins::weights::WeightsFolder(spec.weights->store, one.from.digest));
  }
  const auto fill = [&](const std::string& text) {
    return conf::FillPlaceholders(
        config::FillParameters(text, parameters), [&](std::string_view name) -> std::optional<std::string> {
          if (!name.starts_with("data.")) return std::nullopt;
          const auto found = std::ranges::find(folders, name, &std::pair<std::string, std::string>::first);
          return found != folders.end() ? found->second : fmt::format("{{{}}}", name);
        });
  };
  spec.command = job.resumes && !file.checkpoint.resume.empty() ? file.checkpoint.resume : file.command;
  for (std::string& word : spec.command) word = fill(word);
  spec.directory = file.directory;
  spec.image = file.image;
  spec.pod = file.pod.json;
  absl::StatusOr<std::string> user = UserOf(file);
  if (!user.ok()) return user.status();
  spec.user = *std::move(user);
  spec.limit = file.job.limit;
  spec.env.reserve(file.env.size() + file.secret_env.size() + 13);
  const auto tell = [&](std::string name, std::string value) {
    spec.env.emplace_back(std::move(name), std::move(value));
  };
  for (const auto& [name, value] : file.env) tell(name, fill(value));
  for (size_t i = 0; i < folders.size(); ++i)
    tell(config::VariableOf((*data)[i].name, config::kDataVariable), folders[i].second);
  tell("TIDEGATE_SEED", std::to_string(job.of->provenance.seed));
  if (file.sweep) {
    nlohmann::json all = nlohmann::json::object();
    for (const auto& [name, value] : parameters) {
      tell(config::VariableOf(name), value);
      all[name] = value;
    }
    tell("TIDEGATE_PARAMS", plugins::launchers::EscapePlaceholders(conf::DumpJson(all)));
    if (file.sweep->metric) tell("TIDEGATE_METRICS", MetricFileOf(job));
  }
  // Kept as references: the values behind them may have changed since the submission.
  for (const auto& [name, secret] : file.secret_env) {
    if (!env_.may_name_secret(file.job.tenant, secret.reference())) {
      return absl::FailedPreconditionError(
          conf::Abseil(fmt::format("secret_env/{}: {} is no longer listed in job_secrets of tenant {}", name,
                                   secret.reference(), file.job.tenant)));
    }
    conf::Document document(nlohmann::json(secret.reference()).dump(), file.file, env_.sources);
    conf::Secret now;
    conf::Read(document.root(), now);
    if (document.problem_count() > 0) {
      return absl::FailedPreconditionError(
          conf::Abseil(fmt::format("secret_env/{}: {}", name, document.TakeProblems().front().message)));
    }
    tell(name, plugins::launchers::EscapePlaceholders(now.Reveal()));
  }
  tell("TIDEGATE_JOB", job.id);
  tell("TIDEGATE_RUN", job.members[rank].run);
  tell("TIDEGATE_NODE", NodeOf(cluster(), job.members[rank].at));
  tell("TIDEGATE_ATTEMPT", std::to_string(job.attempt));
  tell("TIDEGATE_RESUMES", job.resumes ? "1" : "0");
  if (file.elements > 0) {
    tell("TIDEGATE_ARRAY_INDEX", std::to_string(job.element));
    tell("TIDEGATE_ARRAY_COUNT", std::to_string(file.elements));
  }
  return spec;
}

void Jobs::OnMembersUp(Workload& job) {
  job.ran_from = context_.now();
  workloads_.Enter(job, State::kRunning, job.why);
}

// A job that reaches its limit may still save its work: it may be submitted again.
bool Jobs::Saves(const Workload& job, Afterwards then) const {
  const bool comes_back =
      then == Afterwards::kResizes || then == Afterwards::kWaits || then == Afterwards::kSuspends;
  return (comes_back || then == Afterwards::kFails) && job.file().checkpoint.given;
}

void Jobs::Fail(Workload& job, std::string why, Blame blame) {
  if (blame == Blame::kPlace) job.blameless = true;
  workloads_.End(job, blame == Blame::kForever ? Afterwards::kFails : Afterwards::kRetries, std::move(why));
}

std::string Jobs::ActionOf(const Workload& job) const {
  switch (job.state) {
    case State::kPlaced:
    case State::kStarting:
      return "job.start";
    case State::kSaving:
      if (job.moves()) return std::string(kJobMoveAction);
      return std::string(conf::WordOf(kJobEndActions, job.afterwards));
    case State::kDraining:  // a member that ended by itself needs no signal
      if (job.moves()) return std::string(kJobMoveAction);
      return job.afterwards == Afterwards::kEnds && job.progress.stopped.empty()
                 ? std::string()
                 : std::string(conf::WordOf(kJobEndActions, job.afterwards));
    default:
      return {};
  }
}

std::string Jobs::DetailOf(const Workload& job, bool ended) const {
  return ended ? DetailOfEnd(job, context_.cluster(), context_.now()) : DetailOfStep(job, context_.cluster());
}

}  // namespace gateway::control