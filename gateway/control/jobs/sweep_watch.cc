#include "gateway/control/jobs/sweep_watch.h"

#include <absl/strings/str_replace.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kReadEvery = std::chrono::seconds(2);
constexpr size_t kLongestLine = 4096;
// A file is still read for so long after its element has ended: its last lines may come late.
constexpr conf::Duration kReadAfter = std::chrono::seconds(10);

bool IsReporting(const Workload& job, conf::TimePoint now) {
  if (job.kind != Kind::kJob || !job.file().sweep || !job.file().sweep->metric) return false;
  if (job.state >= State::kStarting && job.state <= State::kDraining) return true;
  return job.state == State::kStopped && job.attempt > 0 && now - job.since < kReadAfter;
}

// People without the right to see the job's file are shown these reasons, too: they name no path.
absl::Status Wrong(std::string_view why) {
  return absl::FailedPreconditionError(conf::Abseil(why));
}
absl::Status SystemWrong(int error) {
  return Wrong(fmt::format("the file cannot be read: {}", std::generic_category().message(error)));
}

// Opens each folder on the way by itself, so that no part of the path can be a link.
absl::StatusOr<net::Fd> OpenWithoutLinks(const std::string& path) {
  net::Fd at(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at) return SystemWrong(errno);
  size_t begin = 1;
  while (true) {
    const size_t end = path.find('/', begin);
    const bool last = end == path.npos;
    const std::string name = path.substr(begin, last ? path.npos : end - begin);
    if (!name.empty()) {
      const int flags = last ? O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC
                             : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
      net::Fd next(openat(at.get(), name.c_str(), flags));
      if (!next) {
        const int error = errno;
        if (error == ELOOP || (error == ENOTDIR && !last))
          return Wrong("a part of the file's path is a link or not a folder");
        if (error == ENOENT && last) return absl::NotFoundError("");
        if (error == ENOENT) return Wrong("the machine of the gateway does not have the file's folder");
        return SystemWrong(error);
      }
      at = std::move(next);
    }
    if (last) return at;
    begin = end + 1;
  }
}

// The user's number; nothing: this machine does not know the name. Runs may have numbers that no account has.
std::optional<uid_t> UidOf(const std::string& user) {
  if (user.empty()) return geteuid();
  if (const std::optional<uid_t> number = conf::ReadNumber<uid_t>(user)) return number;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  if (getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return entry.pw_uid;
}

absl::Status CheckOwner(const struct stat& info, const std::string& user) {
  if (!S_ISREG(info.st_mode) || info.st_nlink > 1) return Wrong("it is not a regular file with one name");
  const std::optional<uid_t> owner = UidOf(user);
  if (!owner)
    return Wrong(fmt::format("this machine does not know the user {}, to whom the file should belong", user));
  if (info.st_uid == *owner) return absl::OkStatus();
  return Wrong(fmt::format("the file belongs to the user {}, and not to {}, the user of the run", info.st_uid,
                           user.empty() ? std::to_string(*owner) : user));
}

}  // namespace

std::string MetricFileOf(const Workload& job) {
  const std::optional<config::Sweep>& sweep = job.file().sweep;
  if (!sweep || !sweep->metric) return {};
  return absl::StrReplaceAll(sweep->metric->file, {{"{id}", job.id}});
}

Reports ParseReports(std::string_view text) {
  Reports out;
  while (true) {
    const size_t end = text.find('\n', out.bytes);
    if (end == text.npos) break;
    const std::string_view line = text.substr(out.bytes, end - out.bytes);
    out.bytes = end + 1;
    if (line.size() > kLongestLine) continue;
    const nlohmann::json json = conf::ParseJson(line);
    if (!json.is_object()) continue;
    const auto step = json.find("step");
    const auto value = json.find("value");
    if (step == json.end() || value == json.end() || !step->is_number_unsigned() || !value->is_number())
      continue;
    const double number = value->get<double>();
    if (std::isfinite(number)) out.all.push_back({step->get<uint64_t>(), number});
  }
  return out;
}

NewRungs Take(SweepProgress& progress, const std::vector<Report>& reports, const config::Sweep& sweep) {
  const bool maximize = sweep.metric && sweep.metric->maximize;
  const std::optional<scheduler::Halving> rungs =
      sweep.halving ? std::optional<scheduler::Halving>(*sweep.halving) : std::nullopt;
  NewRungs out{.first = progress.rungs.size()};
  for (const Report& report : reports) {
    const bool first = !progress.step;
    if (first || (maximize ? report.value > progress.best : report.value < progress.best))
      progress.best = report.value;
    // An element that starts again reports some steps twice.
    if (first || report.step >= *progress.step) {
      progress.step = report.step;
      progress.value = report.value;
    }
    if (!rungs) continue;
    for (const size_t reached = rungs->RungsAt(report.step); progress.rungs.size() < reached;) {
      progress.rungs.push_back(report.value);
      out.values.push_back(report.value);
    }
  }
  return out;
}

std::string SweepInWords(const Workload& job) {
  if (!job.file().sweep || !job.file().sweep->metric) return {};
  const SweepProgress& progress = job.progress;
  const std::string& name = job.file().sweep->metric->name;
  std::string out;
  if (progress.step) {
    out = fmt::format("Its last report: {} {:.6g} at step {}, the best {:.6g}.", name, progress.value,
                      *progress.step, progress.best);
  } else if (progress.unread.empty() && job.state == State::kRunning) {
    out = progress.file_id == 0 ? "It has reported nothing yet: the gateway finds no file of its reports."
                                : "It has reported nothing yet.";
  }
  if (!progress.unread.empty())
    out += fmt::format("{}Its reports are not read: {}.", out.empty() ? "" : " ", progress.unread);
  return out;
}

void SweepWatch::Tick() {
  const conf::TimePoint now = context_.now();
  if (reading_ || closing_ || now < next_) return;
  std::vector<Watched> watched;
  std::map<std::string, conf::TimePoint> last;
  for (const Workload& job : workloads_.all()) {
    if (!IsReporting(job, now)) continue;
    const auto read = last_read_.find(job.id);
    last[job.id] = read == last_read_.end() ? conf::TimePoint() : read->second;
    const bool told = !job.members.empty() && !job.members.front().user.empty();
    const std::string user = told ? job.members.front().user : run_user_();
    watched.push_back({.job = job.id,
                       .path = MetricFileOf(job),
                       .user = user,
                       .from = job.progress.read_to,
                       .file_id = job.progress.file_id});
  }
  last_read_ = std::move(last);
  next_ = now + kReadEvery;
  if (watched.empty()) {
    halvings_.clear();
    return;
  }
  // The files that have waited longest come first.
  std::ranges::sort(watched, {},
                    [this](const Watched& one) { return std::pair(last_read_[one.job], one.job); });
  if (watched.size() > kMostFiles) watched.resize(kMostFiles);
  for (const Watched& one : watched) last_read_[one.job] = now;
  reading_ = true;
  context_.spawn(ReadFiles(std::move(watched)));
}

void SweepWatch::Read(Watched& one) {
  const absl::StatusOr<net::Fd> file = OpenWithoutLinks(one.path);
  if (!file.ok()) {
    one.status = file.status();
    return;
  }
  struct stat info{};
  if (fstat(file->get(), &info) != 0) {
    one.status = SystemWrong(errno);
    return;
  }
  if (one.status = CheckOwner(info, one.user); !one.status.ok()) return;
  const auto size = static_cast<uint64_t>(info.st_size);
  const auto id = static_cast<uint64_t>(info.st_ino);
  one.anew = id != one.file_id || size < one.from;
  one.file_id = id;
  if (one.anew) one.from = 0;
  one.text.resize(std::min<uint64_t>(size - one.from, kMostRead));
  const absl::StatusOr<size_t> n = net::ReadAt(file->get(), one.path, one.from, one.text);
  if (!n.ok()) one.status = Wrong("the file cannot be read");
  one.text.resize(n.value_or(0));
}

net::Task<void> SweepWatch::ReadFiles(std::vector<Watched> watched) {
  ++under_way_;
  const absl::Status read = co_await off_loop_([&watched] {
    for (Watched& one : watched) Read(one);
    return absl::OkStatus();
  });
  reading_ = false;
  bool changed = false;
  if (read.ok()) {
    for (const Watched& one : watched) changed |= OnRead(one);
  }
  // Nothing is lost if this fails: the files are read from their start after a restart.
  if (changed) (co_await context_.store->Flush()).IgnoreError();
  --under_way_;
}

bool SweepWatch::OnRead(const Watched& read) {
  Workload* const job = workloads_.Find(read.job);
  if (job == nullptr || !job->of || !job->file().sweep || !job->file().sweep->metric) return false;
  SweepProgress& progress = job->progress;
  // There is no file before its first report.
  progress.unread = read.status.ok() || absl::IsNotFound(read.status)
                        ? std::string()
                        : std::string(conf::Std(read.status.message()));
  if (!read.status.ok()) return false;
  const Reports reports = ParseReports(read.text);
  progress.file_id = read.file_id;
  // A line that is longer than what is read at once would never end.
  const bool stuck = reports.bytes == 0 && read.text.size() == kMostRead;
  progress.read_to = read.from + (stuck ? read.text.size() : reports.bytes);
  if (reports.all.empty()) return false;
  // Before this element's own values are among them.
  scheduler::Halving* const halving = job->file().sweep->halving ? &HalvingOf(*job) : nullptr;
  const NewRungs rungs = Take(progress, reports.all, *job->file().sweep);
  for (size_t i = 0; halving != nullptr && i < rungs.values.size(); ++i) {
    const scheduler::HalvingVerdict verdict = halving->Reach(rungs.first + i, rungs.values[i]);
    if (!verdict.stops || !progress.stopped.empty() || job->state != State::kRunning) continue;
    progress.stopped = verdict.why;
    workloads_.End(*job, Afterwards::kEnds, fmt::format("its sweep stopped it early: {}", verdict.why));
  }
  // Where a state is not stored yet, the step that stores it has this, too.
  if (!job->saved || job->busy) return false;
  context_.store->Put(*job);
  return true;
}

// Rebuilt after a restart from the stored progress of all elements.
scheduler::Halving& SweepWatch::HalvingOf(const Workload& job) {
  const auto known = halvings_.find(job.of->id);
  if (known != halvings_.end()) return known->second;
  scheduler::Halving halving(*job.file().sweep->halving);
  for (const Workload* const element : std::as_const(workloads_).WithPrefix(job.of->id + ".")) {
    if (element->of != job.of) continue;
    for (size_t rung = 0; rung < element->progress.rungs.size(); ++rung)
      halving.Restore(rung, element->progress.rungs[rung]);
  }
  return halvings_.emplace(job.of->id, std::move(halving)).first->second;
}

}  // namespace gateway::control
