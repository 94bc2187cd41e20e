// What operators ask of jobs.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/text.h"
#include "gateway/control/jobs/jobs.h"
#include "scheduler/io/explanation_text.h"

namespace gateway::control {
namespace {

ledger::Event Asked(std::string_view action, const Job& job, std::string actor) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = std::move(actor);
  event.subject = job.id;
  event.tenant = job.file().job.tenant;
  event.detail = nlohmann::json{{"reason", "an operator asked for it"}, {"state", Name(job.state)}}.dump();
  return event;
}

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(conf::Abseil(fmt::format("no job has the id \"{}\"", id)));
}

absl::Status NotNow(const Job& job, std::string_view what) {
  return absl::FailedPreconditionError(
      conf::Abseil(fmt::format("{} is {}, and {}", job.id, Name(job.state), what)));
}

std::string FirstLeaf(const std::vector<scheduler::Queue>& queues) {
  std::set<std::string_view> inner;
  for (const scheduler::Queue& queue : queues) inner.insert(queue.parent);
  for (const scheduler::Queue& queue : queues) {
    if (!inner.contains(queue.name)) return queue.name;
  }
  return {};
}

// A file's end is given from the start of a line where one begins in it.
absl::StatusOr<JobLog> ReadLog(const std::string& path, const Jobs::WhichLog& which) {
  absl::StatusOr<ledger::Fd> file = ledger::OpenFile(path, O_RDONLY);
  if (!file.ok()) return file.status();
  const absl::StatusOr<uint64_t> size = ledger::FileSize(file->get(), path);
  if (!size.ok()) return size.status();
  const uint64_t bytes = std::min(which.bytes, Jobs::kMostLog);
  const bool end = !which.from;
  const uint64_t from = end ? *size - std::min(*size, bytes) : *which.from > *size ? 0 : *which.from;
  JobLog log;
  log.cut = end && from > 0;
  log.text.resize(std::min(*size - from, bytes));
  const ssize_t n = pread(file->get(), log.text.data(), log.text.size(), static_cast<off_t>(from));
  if (n < 0) return ledger::SystemError("read", path, errno);
  log.text.resize(static_cast<size_t>(n));
  log.next = from + log.text.size();
  if (const size_t line = log.text.find('\n'); log.cut && line != std::string::npos)
    log.text.erase(0, line + 1);
  return log;
}

}  // namespace

net::Task<absl::StatusOr<Submitted>> Jobs::Submit(std::string text, std::string file, std::string actor) {
  Submitted out;
  auto loaded = config::ReadJobFile(text, file, around_.sources);
  out.problems = std::move(loaded.problems);
  if (!loaded.value) co_return out;
  config::JobFile job = *std::move(loaded.value);
  out.problems = config::CheckJob(job, *around_.cluster, around_.queues);
  if (!job.job.tenant.empty()) {
    if (const std::optional<std::string> path = around_.tenant_path(job.job.tenant)) {
      job.job.tenant = *path;
    } else {
      out.problems.push_back({.file = file,
                              .pointer = "/tenant",
                              .line = 0,
                              .value = job.job.tenant,
                              .message = fmt::format("unknown tenant \"{}\"", job.job.tenant)});
    }
  }
  for (size_t i = 0; i < job.job.after.size(); ++i) {
    const std::string& name = job.job.after[i];
    const bool known = Find(name) != nullptr || Find(name + ".0") != nullptr;
    if (known && OutcomeOf(name) != Outcome::kFailed) continue;
    out.problems.push_back(
        {.file = file,
         .pointer = fmt::format("/after/{}", i),
         .line = 0,
         .value = name,
         .message = known
                        ? fmt::format("{} did not end well, and what comes after it would never start", name)
                        : fmt::format("no job has the id \"{}\"", name)});
  }
  if (!out.problems.empty()) co_return out;
  if (job.job.queue.empty()) job.job.queue = FirstLeaf(around_.queues);
  out.used_up = UsedUp(job);
  if (!out.used_up.empty()) co_return out;

  const uint32_t count = std::max(1U, job.elements);
  const auto open = static_cast<size_t>(
      std::ranges::count_if(jobs_, [](const Job& other) { return !IsOver(other.state); }));
  if (open + count > kMostJobs) {
    co_return absl::ResourceExhaustedError(conf::Abseil(fmt::format(
        "{} jobs are not over, and with {} more there were more than {}", open, count, kMostJobs)));
  }
  const uint64_t number = ++last_number_;
  auto submission = std::make_shared<Submission>();
  submission->id = fmt::format("{}-{}", job.name, number);
  submission->text = std::move(text);
  submission->file = std::move(job);
  submission->user = actor;
  submission->at = around_.now();

  std::string lines = LineOf(*submission, number);
  std::vector<Job> made(count);
  for (uint32_t element = 0; element < count; ++element) {
    Job& one = made[element];
    one.id = submission->file.elements > 0 ? fmt::format("{}.{}", submission->id, element) : submission->id;
    one.of = submission;
    one.element = element;
    one.since = submission->at;
    one.why = "it waits for a place";
    one.actor = actor;
    one.recorded = one.saved = true;
    lines += LineOf(one, *around_.cluster);
  }
  ledger::Event event = Asked("job.submit", made.front(), actor);
  event.subject = submission->id;
  event.detail = nlohmann::json{{"name", submission->file.name}, {"jobs", count}}.dump();
  if (absl::Status recorded = co_await around_.record(std::move(event)); !recorded.ok()) co_return recorded;
  if (absl::Status kept = co_await Persist(std::move(lines)); !kept.ok()) {
    // It may still be written: then it is taken back by the same write.
    for (const Job& one : made) unwritten_ += LineOfForgotten(one.id);
    co_return kept;
  }
  for (Job& one : made) {
    out.jobs.push_back(one.id);
    AskPlanner(Add(std::move(one)));
  }
  around_.wake();
  co_return out;
}

net::Task<absl::Status> Jobs::Cancel(std::string id, std::string actor) {
  Job* job = Get(id);
  if (job == nullptr) co_return NoSuchJob(id);
  if (IsOver(job->state)) co_return NotNow(*job, "cannot be cancelled any more");
  if (!job->holds()) {
    if (absl::Status recorded = co_await around_.record(Asked("job.cancel", *job, actor)); !recorded.ok())
      co_return recorded;
    job = Get(id);
    if (job == nullptr || IsOver(job->state)) co_return NoSuchJob(id);
  }
  if (!job->holds()) {
    LeavePlanner(*job);
    Enter(*job, JobState::kCancelled, fmt::format("cancelled by {}", actor), actor);
  } else {
    End(*job, Afterwards::kCancels, fmt::format("cancelled by {}", actor), actor);
  }
  co_return co_await Save(id);
}

net::Task<absl::Status> Jobs::Suspend(std::string id, std::string actor) {
  Job* job = Get(id);
  if (job == nullptr) co_return NoSuchJob(id);
  if (IsOver(job->state) || job->state == JobState::kSuspended) co_return NotNow(*job, "cannot be suspended");
  if (!job->holds()) {
    if (absl::Status recorded = co_await around_.record(Asked("job.suspend", *job, actor)); !recorded.ok())
      co_return recorded;
    job = Get(id);
    if (job == nullptr || IsOver(job->state)) co_return NoSuchJob(id);
  }
  if (job->state == JobState::kPending) {
    LeavePlanner(*job);
    Enter(*job, JobState::kSuspended, fmt::format("suspended by {}", actor), actor);
  } else {
    End(*job, Afterwards::kSuspends, fmt::format("suspended by {}", actor), actor);
  }
  co_return co_await Save(id);
}

net::Task<absl::Status> Jobs::Resume(std::string id, std::string actor) {
  Job* job = Get(id);
  if (job == nullptr) co_return NoSuchJob(id);
  if (job->state != JobState::kSuspended) co_return NotNow(*job, "only a suspended job can be resumed");
  if (absl::Status recorded = co_await around_.record(Asked("job.resume", *job, actor)); !recorded.ok())
    co_return recorded;
  job = Get(id);
  if (job->state == JobState::kSuspended) {
    Enter(*job, JobState::kPending, fmt::format("resumed by {}: it waits for a place", actor), actor);
    AskPlanner(*job);
  }
  co_return co_await Save(id);
}

net::Task<absl::StatusOr<JobLog>> Jobs::Log(std::string id, WhichLog which) {
  const Job* const job = Find(id);
  if (job == nullptr) co_return NoSuchJob(id);
  const std::vector<JobMember>& members = which.before ? job->before : job->members;
  if (members.empty())
    co_return NotNow(*job, which.before ? "had no attempt before" : "has not been started yet");
  if (which.rank >= members.size()) {
    co_return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("rank {}: {} has the ranks 0 to {}", which.rank, id, members.size() - 1)));
  }
  const std::string path = members[which.rank].log;
  if (path.empty()) co_return NotNow(*job, "its launcher does not say where its output is");
  absl::StatusOr<JobLog> log = JobLog();
  (co_await around_.off_loop([&] {
    log = ReadLog(path, which);
    return absl::OkStatus();
  })).IgnoreError();
  co_return log;
}

std::vector<std::string> Jobs::Explain(const Job& job) const {
  std::vector<std::string> out = {
      fmt::format("{} is {} since {}: {}.", job.id, Name(job.state), conf::FormatTime(job.since), job.why)};
  if (job.state != JobState::kPending) {
    for (size_t rank = 0; job.holds() && rank < job.members.size(); ++rank) {
      const JobMember& member = job.members[rank];
      if (!member.why.empty()) out.push_back(fmt::format("Member {}: {}.", rank, member.why));
    }
    return out;
  }
  if (job.withheld) out.push_back(fmt::format("It is not placed: {}.", job.unplaced));
  if (job.held) {
    if (const std::vector<std::string> awaits = Awaits(job); !awaits.empty())
      out.push_back(fmt::format("It comes after {}, which has not ended.", fmt::join(awaits, ", ")));
    if (!job.crashes.MayStart(around_.now()))
      out.push_back(fmt::format("It is tried again at {}.", conf::FormatTime(job.crashes.next())));
    return out;
  }
  scheduler::Planner& planner = around_.planner();
  const scheduler::JobIndex index = planner.jobs().Find(job.id);
  if (index == scheduler::kNone) return out;
  if (!job.unplaced.empty()) out.push_back(fmt::format("In the last cycle: {}.", job.unplaced));
  for (std::string& sentence : scheduler::io::InWords(planner.Explain(index, around_.now())))
    out.push_back(std::move(sentence));
  std::ranges::move(around_.doubts(), std::back_inserter(out));
  return out;
}

}  // namespace gateway::control
