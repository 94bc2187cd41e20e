// What operators ask of jobs.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

std::string InWords(conf::Duration length) {
  const int64_t seconds = std::chrono::floor<std::chrono::seconds>(length).count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

// How far it has come, by what it has saved.
std::string Progress(const Job& job) {
  const conf::Duration kept = job.kept();
  if (IsOver(job.state) || kept < std::chrono::seconds(1)) return {};
  const std::optional<conf::Duration>& estimate = job.file().job.estimate;
  if (!estimate) return fmt::format("{} of its work are saved.", InWords(kept));
  return fmt::format("{} of the {} that it is estimated to run are saved.", InWords(kept),
                     InWords(*estimate));
}

// How much of UTF-8 text ends with a whole character; what ends in the middle of one is read with what comes
// after it.
size_t WholeCharacters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if ((c & 0xC0) == 0x80) continue;
    const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
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
  if (const size_t whole = WholeCharacters(log.text); whole > 0) log.text.resize(whole);
  log.next = from + log.text.size();
  if (const size_t line = log.text.find('\n'); log.cut && line != std::string::npos)
    log.text.erase(0, line + 1);
  return log;
}

}  // namespace

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
  if (job == nullptr) co_return NoSuchJob(id);
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
  if (std::string progress = Progress(job); !progress.empty()) out.push_back(std::move(progress));
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
