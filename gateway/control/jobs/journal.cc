#include "gateway/control/jobs/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "conf/text.h"

namespace gateway::control {
namespace {

using nlohmann::json;

std::string Line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

json Written(const scheduler::MemberAt& at, const scheduler::Cluster& cluster) {
  const scheduler::Holding& holding = at.holding;
  json out = {{"role", at.role},
              {"rank", at.rank},
              {"node", holding.node < cluster.nodes.size() ? cluster.nodes[holding.node].name : ""},
              {"cpu_milli", holding.cpu_milli},
              {"memory_mib", holding.memory_mib},
              {"isolation", static_cast<int>(holding.isolation)}};
  if (holding.devices != 0) {
    out["devices"] = holding.devices;
    out["milli"] = holding.milli;
    out["device_mib"] = holding.device_mib;
  }
  if (holding.profile != 0) {
    out["profile"] = holding.profile;
    out["start"] = holding.start;
  }
  return out;
}

scheduler::MemberAt ReadAt(const json& in, const scheduler::Cluster& cluster) {
  scheduler::MemberAt at;
  at.role = in.at("role").get<uint16_t>();
  at.rank = in.at("rank").get<uint32_t>();
  scheduler::Holding& holding = at.holding;
  const auto node =
      std::ranges::find(cluster.nodes, in.at("node").get<std::string>(), &scheduler::Node::name);
  holding.node = node == cluster.nodes.end() ? scheduler::kNone
                                             : static_cast<scheduler::NodeId>(node - cluster.nodes.begin());
  holding.cpu_milli = in.at("cpu_milli").get<int64_t>();
  holding.memory_mib = in.at("memory_mib").get<int64_t>();
  holding.isolation = static_cast<scheduler::Isolation>(std::clamp(in.at("isolation").get<int>(), 0, 2));
  holding.devices = in.value("devices", uint32_t{0});
  holding.milli = in.value("milli", uint16_t{0});
  holding.device_mib = in.value("device_mib", int32_t{0});
  holding.profile = in.value("profile", uint8_t{0});
  holding.start = in.value("start", uint8_t{0});
  return at;
}

json Written(const std::vector<JobMember>& members, const scheduler::Cluster& cluster) {
  json out = json::array();
  for (const JobMember& member : members) {
    json one = Written(member.at, cluster);
    one["run"] = member.run;
    if (member.exit_code) one["exit_code"] = *member.exit_code;
    if (!member.why.empty()) one["why"] = member.why;
    if (!member.log.empty()) one["log"] = member.log;
    if (member.ended) one["ended"] = true;
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<JobMember> ReadMembers(const json& in, const scheduler::Cluster& cluster) {
  std::vector<JobMember> members;
  members.reserve(in.size());
  for (const json& one : in) {
    JobMember& member = members.emplace_back();
    member.at = ReadAt(one, cluster);
    member.run = one.at("run").get<std::string>();
    if (one.contains("exit_code")) member.exit_code = one["exit_code"].get<int>();
    member.why = one.value("why", "");
    member.log = one.value("log", "");
    member.ended = one.value("ended", false);
  }
  return members;
}

template <class E>
E Word(std::optional<E> (*parse)(std::string_view), const json& in, const char* key) {
  const auto word = in.at(key).get<std::string>();
  const std::optional<E> value = parse(word);
  if (!value) throw std::invalid_argument(fmt::format("unknown {} \"{}\"", key, word));
  return *value;
}

class Reader {
 public:
  explicit Reader(const scheduler::Cluster& cluster) : cluster_(cluster) {}

  void Take(const json& line) {
    if (line.contains("submission")) return TakeSubmission(line);
    if (line.contains("forgotten")) return Forget(line["forgotten"].get<std::string>());
    if (line.contains("last")) {
      known_.last_number = std::max(known_.last_number, line["last"].get<uint64_t>());
      return;
    }
    TakeJob(line);
  }

  KnownJobs Finish() { return std::move(known_); }

 private:
  void TakeSubmission(const json& line) {
    auto submission = std::make_shared<Submission>();
    submission->id = line["submission"].get<std::string>();
    submission->text = line.at("text").get<std::string>();
    submission->user = line.at("user").get<std::string>();
    submission->at = conf::FromUnixMicros(line.at("at_us").get<int64_t>());
    auto loaded =
        config::ReadJobFile(submission->text, line.at("file").get<std::string>(), config::ReferencesOnly());
    if (!loaded.value) throw std::invalid_argument(ToString(loaded.problems.front()));
    submission->file = *std::move(loaded.value);
    // As they were resolved then: a file may leave the queue open and name a tenant without its path.
    submission->file.job.queue = line.at("queue").get<std::string>();
    submission->file.job.tenant = line.at("tenant").get<std::string>();
    known_.last_number = std::max(known_.last_number, line.at("number").get<uint64_t>());
    submissions_[submission->id] = std::move(submission);
  }

  void TakeJob(const json& line) {
    Job job;
    job.id = line.at("job").get<std::string>();
    job.of = submissions_.at(line.at("of").get<std::string>());
    job.element = line.at("element").get<uint32_t>();
    job.state = Word(ParseJobState, line, "state");
    job.since = conf::FromUnixMicros(line.at("since_us").get<int64_t>());
    job.started = conf::FromUnixMicros(line.at("started_us").get<int64_t>());
    job.why = line.at("why").get<std::string>();
    job.actor = line.at("actor").get<std::string>();
    job.afterwards = Word(ParseAfterwards, line, "afterwards");
    job.attempt = line.at("attempt").get<uint32_t>();
    job.restarts = line.at("restarts").get<uint32_t>();
    job.resumes = line.at("resumes").get<bool>();
    job.done = std::chrono::microseconds(line.value("done_us", int64_t{0}));
    job.members = ReadMembers(line.at("members"), cluster_);
    job.before = ReadMembers(line.at("before"), cluster_);
    for (const json& at : line.at("next")) job.next.push_back(ReadAt(at, cluster_));
    job.saved = true;
    const auto [at, added] = places_.try_emplace(job.id, known_.jobs.size());
    if (added) {
      known_.jobs.push_back(std::move(job));
    } else {
      known_.jobs[at->second] = std::move(job);
    }
  }

  void Forget(const std::string& id) {
    const auto place = places_.find(id);
    if (place == places_.end()) return;
    known_.jobs.erase(known_.jobs.begin() + static_cast<std::ptrdiff_t>(place->second));
    for (auto& [job, at] : places_) at -= at > place->second ? 1 : 0;
    places_.erase(place);
  }

  const scheduler::Cluster& cluster_;
  std::map<std::string, std::shared_ptr<const Submission>> submissions_;
  std::map<std::string, size_t> places_;
  KnownJobs known_;
};

}  // namespace

std::string LineOf(const Submission& submission, uint64_t number) {
  return Line({{"submission", submission.id},
               {"number", number},
               {"at_us", conf::ToUnixMicros(submission.at)},
               {"user", submission.user},
               {"file", submission.file.file},
               {"queue", submission.file.job.queue},
               {"tenant", submission.file.job.tenant},
               {"text", submission.text}});
}

std::string LineOf(const Job& job, const scheduler::Cluster& cluster) {
  json next = json::array();
  for (const scheduler::MemberAt& at : job.next) next.push_back(Written(at, cluster));
  return Line({{"job", job.id},
               {"of", job.of->id},
               {"element", job.element},
               {"state", Name(job.state)},
               {"since_us", conf::ToUnixMicros(job.since)},
               {"started_us", conf::ToUnixMicros(job.started)},
               {"why", job.why},
               {"actor", job.actor},
               {"afterwards", Name(job.afterwards)},
               {"attempt", job.attempt},
               {"restarts", job.restarts},
               {"resumes", job.resumes},
               {"done_us", std::chrono::duration_cast<std::chrono::microseconds>(job.done).count()},
               {"members", Written(job.members, cluster)},
               {"before", Written(job.before, cluster)},
               {"next", std::move(next)}});
}

std::string LineOfForgotten(std::string_view job) {
  return Line({{"forgotten", job}});
}

absl::StatusOr<KnownJobs> ParseJobs(std::string_view text, const scheduler::Cluster& cluster) {
  Reader reader(cluster);
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    try {
      reader.Take(json::parse(line));
    } catch (const std::exception& error) {
      return absl::DataLossError(conf::Abseil(fmt::format("line {}: {}", number, error.what())));
    }
  }
  return reader.Finish();
}

std::string TextOf(const KnownJobs& known, const scheduler::Cluster& cluster) {
  std::string text = Line({{"last", known.last_number}});
  const Submission* last = nullptr;
  for (const Job& job : known.jobs) {
    // Elements of one submission stand together.
    if (job.of.get() != last) text += LineOf(*job.of, 0);
    last = job.of.get();
    text += LineOf(job, cluster);
  }
  return text;
}

absl::StatusOr<std::string> JobJournal::Read() const {
  absl::StatusOr<std::string> text = ledger::ReadFile(path_, kMostBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  if (!text.ok()) return text.status();
  text->resize(text->rfind('\n') + 1);  // npos + 1: nothing is whole
  return text;
}

absl::Status JobJournal::Append(std::string_view lines) {
  if (!file_) {
    absl::StatusOr<ledger::Fd> file = ledger::OpenFile(path_, O_CREAT | O_WRONLY | O_APPEND);
    if (!file.ok()) return file.status();
    const absl::StatusOr<uint64_t> size = ledger::FileSize(file->get(), path_);
    if (!size.ok()) return size.status();
    file_ = *std::move(file);
    size_ = *size;
  }
  const auto take_back = [&](absl::Status why) {
    if (ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_ = {};
    return why;
  };
  for (size_t done = 0; done < lines.size();) {
    const ssize_t n = write(file_.get(), lines.data() + done, lines.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return take_back(ledger::SystemError("write", path_, errno));
    done += static_cast<size_t>(n);
  }
  if (fdatasync(file_.get()) != 0) return take_back(ledger::SystemError("sync", path_, errno));
  size_ += lines.size();
  return absl::OkStatus();
}

absl::Status JobJournal::Replace(std::string_view text) {
  if (absl::Status replaced = ledger::ReplaceFile(path_, text); !replaced.ok()) return replaced;
  file_ = {};
  size_ = compact_ = text.size();
  return absl::OkStatus();
}

}  // namespace gateway::control
