// Handing a job file in: all that is wrong with it, or the jobs that it becomes.
#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/text.h"
#include "gateway/config/cut_devices.h"
#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

std::string FirstLeaf(const std::vector<scheduler::Queue>& queues) {
  std::set<std::string_view> inner;
  for (const scheduler::Queue& queue : queues) inner.insert(queue.parent);
  for (const scheduler::Queue& queue : queues) {
    if (!inner.contains(queue.name)) return queue.name;
  }
  return {};
}

// By which the lines of a submission go while they wait for the disk; a job's go by its id.
std::string KeyOf(const Submission& submission) {
  return "of " + submission.id;
}

}  // namespace

std::vector<conf::Problem> Jobs::Check(config::JobFile& job) const {
  std::vector<conf::Problem> problems = config::CheckJob(job, *around_.cluster, around_.queues);
  const auto wrong = [&](std::string pointer, const std::string& value, std::string message) {
    problems.push_back({.file = job.file,
                        .pointer = std::move(pointer),
                        .line = 0,
                        .value = value,
                        .message = std::move(message)});
  };
  if (!job.job.tenant.empty()) {
    if (const std::optional<std::string> path = around_.tenant_path(job.job.tenant)) {
      job.job.tenant = *path;
    } else {
      wrong("/tenant", job.job.tenant, fmt::format("unknown tenant \"{}\"", job.job.tenant));
    }
  }
  for (size_t i = 0; i < job.job.after.size(); ++i) {
    const std::string& name = job.job.after[i];
    const bool known = Find(name) != nullptr || Find(name + ".0") != nullptr;
    if (known && OutcomeOf(name) != Outcome::kFailed) continue;
    wrong(fmt::format("/after/{}", i), name,
          known ? fmt::format("{} did not end well, and what comes after it would never start", name)
                : fmt::format("no job has the id \"{}\"", name));
  }
  const std::vector<scheduler::DeviceAsk>& devices = job.job.roles.front().ask.devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::string cut = config::AsksForCut(devices[i], around_.uncut); !cut.empty())
      wrong(fmt::format("/devices/{}", i), devices[i].kinds.front(), std::move(cut));
  }
  if (job.job.queue.empty()) job.job.queue = FirstLeaf(around_.queues);
  return problems;
}

absl::Status Jobs::HasRoomFor(size_t count, size_t bytes) const {
  size_t open = coming_;
  size_t text = coming_bytes_ + bytes;
  const Submission* last = nullptr;
  for (const Job& job : jobs_) {
    open += IsOver(job.state) ? 0 : 1;
    // Elements of one submission stand together.
    if (job.of.get() != last) text += job.of->text.size();
    last = job.of.get();
  }
  if (open + count > kMostJobs) {
    return absl::ResourceExhaustedError(conf::Abseil(fmt::format(
        "{} jobs are not over, and with {} more there were more than {}", open, count, kMostJobs)));
  }
  if (text > kMostText) {
    return absl::ResourceExhaustedError(
        conf::Abseil(fmt::format("the job files of all jobs would have {} bytes, more than {}; those of jobs "
                                 "that are over count until {} others are over, too",
                                 text, kMostText, kKeptOver)));
  }
  return absl::OkStatus();
}

std::vector<Job> Jobs::JobsOf(const std::shared_ptr<const Submission>& submission) const {
  const config::JobFile& file = submission->file;
  std::vector<Job> made(std::max(1U, file.elements));
  for (uint32_t element = 0; element < made.size(); ++element) {
    Job& one = made[element];
    one.id = file.elements > 0 ? fmt::format("{}.{}", submission->id, element) : submission->id;
    one.of = submission;
    one.element = element;
    one.since = submission->at;
    one.why = "it waits for a place";
    one.actor = submission->user;
    one.recorded = one.saved = true;
  }
  return made;
}

net::Task<absl::StatusOr<Submitted>> Jobs::Submit(std::string text, std::string file, std::string actor) {
  Submitted out;
  auto loaded = config::ReadJobFile(text, file, around_.sources);
  out.problems = std::move(loaded.problems);
  if (loaded.value) out.problems = Check(*loaded.value);
  if (!out.problems.empty()) co_return out;
  out.used_up = UsedUp(*loaded.value);
  if (!out.used_up.empty()) co_return out;

  const size_t count = std::max(1U, loaded.value->elements);
  const size_t bytes = text.size();
  if (absl::Status room = HasRoomFor(count, bytes); !room.ok()) co_return room;
  coming_ += count;
  coming_bytes_ += bytes;
  const absl::Cleanup come = [&] {
    coming_ -= count;
    coming_bytes_ -= bytes;
  };

  const uint64_t number = ++last_number_;
  auto submission = std::make_shared<Submission>();
  submission->id = fmt::format("{}-{}", loaded.value->name, number);
  submission->text = std::move(text);
  submission->file = *std::move(loaded.value);
  submission->user = actor;
  submission->at = around_.now();
  std::vector<Job> made = JobsOf(submission);

  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = "job.submit";
  event.actor = std::move(actor);
  event.subject = submission->id;
  event.tenant = submission->file.job.tenant;
  event.detail = nlohmann::json{{"name", submission->file.name}, {"jobs", count}}.dump();
  if (absl::Status recorded = co_await around_.record(std::move(event)); !recorded.ok()) co_return recorded;
  if (absl::Status kept = co_await PersistNew(*submission, number, made); !kept.ok()) co_return kept;
  for (Job& one : made) {
    out.jobs.push_back(one.id);
    AskPlanner(Add(std::move(one)));
  }
  around_.wake();
  co_return out;
}

// All of it, or nothing.
net::Task<absl::Status> Jobs::PersistNew(const Submission& submission, uint64_t number,
                                         const std::vector<Job>& made) {
  unwritten_.Put(KeyOf(submission), LineOf(submission, number));
  for (const Job& one : made) unwritten_.Put(one.id, LineOf(one, *around_.cluster));
  absl::Status kept = co_await Persist();
  if (kept.ok()) co_return kept;
  // What is being written for somebody else by now is taken back by the next write.
  unwritten_.Drop(KeyOf(submission));
  for (const Job& one : made) {
    if (!unwritten_.Drop(one.id)) unwritten_.Put(one.id, LineOfForgotten(one.id));
  }
  co_return kept;
}

}  // namespace gateway::control
