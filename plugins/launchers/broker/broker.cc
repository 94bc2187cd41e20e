#include "plugins/launchers/broker/broker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "plugins/launchers/broker/brokered_run_host.h"
#include "plugins/launchers/broker/messages.h"
#include "plugins/launchers/local_run_host.h"
#include "plugins/launchers/run_folder.h"

namespace plugins::launchers {
namespace {

using gateway::net::Fd;
using gateway::net::ProcessChannel;
using nlohmann::json;

// One question at a time.
class Server {
 public:
  explicit Server(ProcessChannel& channel) : channel_(channel) {}

  void Run() {
    while (std::optional<ProcessChannel::Message> question = channel_.Receive()) {
      std::vector<int> fds;
      json answer;
      try {
        answer = Answer(json::from_cbor(question->bytes), question->fds, fds);
      } catch (const json::exception& error) {
        answer = ErrorAnswer(absl::InvalidArgumentError(error.what()));
      }
      if (!channel_.Send(json::to_cbor(answer), fds)) return;
    }
  }

 private:
  json Answer(const json& question, const std::vector<Fd>& given, std::vector<int>& fds) {
    const std::string ask = question.at("ask").get<std::string>();
    released_ = {};
    if (ask == "seal") return Seal(question.at("seal").get<ask::Seal>());
    if (!host_) return ErrorAnswer(absl::FailedPreconditionError("nothing may be started yet"));
    if (ask == "hold") return Hold(question.at("order").get<RunOrder>(), given);
    if (ask == "release") return Release(question.at("pid").get<pid_t>(), fds);
    if (ask == "drop") return held_.erase(question.at("pid").get<pid_t>()), json::object();
    if (ask == "find") return Find();
    if (ask == "signal") {
      return {
          {"members", host_->Signal(question.at("mark").get<RunMark>(), question.at("signal").get<int>())}};
    }
    if (ask == "port") {
      const gateway::net::PortUse use =
          host_->CheckPort(question.at("mark").get<RunMark>(), question.at("host").get<std::string>(),
                           question.at("port").get<uint16_t>());
      return {{"taken", use.taken}, {"by_these", use.by_these}};
    }
    if (ask == "environment") return {{"environment", host_->EnvironmentOf(question.at("pid").get<pid_t>())}};
    if (ask == "make_cgroup")
      return MakeCgroup(question.at("id").get<std::string>(), question.at("limits").get<RunLimits>());
    if (ask == "kill_cgroup" || ask == "remove_cgroup")
      return EndCgroup(question.at("cgroup").get<std::string>(), ask == "kill_cgroup");
    return ErrorAnswer(absl::UnimplementedError("the launch broker cannot do that: " + ask));
  }

  json Seal(const ask::Seal& seal) {
    if (host_) return ErrorAnswer(absl::FailedPreconditionError("the users of runs are set already"));
    std::vector<RunUser> users;
    for (const std::string& name : seal.users) {
      absl::StatusOr<RunUser> user = FindRunUser(name);
      if (!user.ok()) return ErrorAnswer(user.status());
      if (user->uid == seal.owner) {
        return ErrorAnswer(absl::InvalidArgumentError(fmt::format(
            "runs cannot become {}, the gateway's own user; name a user that owns nothing else", name)));
      }
      users.push_back(*std::move(user));
    }
    json answer = {{"users", users}};
    host_ = std::make_unique<LocalRunHost>(LocalRunHost::Options{.token = seal.token,
                                                                 .wrapper = seal.wrapper,
                                                                 .users = std::move(users),
                                                                 .owner = seal.owner,
                                                                 .owner_group = seal.owner_group});
    answer["cgroups"] = host_->cgroups();
    return answer;
  }

  json Hold(const RunOrder& order, const std::vector<Fd>& given) {
    if (!IsRunId(order.id) || order.user.empty() || given.size() != 2 || !MayBe(order.id, order.cgroup))
      return ErrorAnswer(absl::InvalidArgumentError("a run needs an id, a user, a log and a lock"));
    absl::StatusOr<std::unique_ptr<HeldRun>> held = host_->Hold(order, given[0].get(), given[1].get());
    if (!held.ok()) return ErrorAnswer(held.status());
    const json answer = {{"pid", (*held)->pid()}, {"start_ticks", (*held)->start_ticks()}};
    held_[(*held)->pid()] = *std::move(held);
    return answer;
  }

  json Release(pid_t pid, std::vector<int>& fds) {
    const auto held = held_.extract(pid);
    if (!held) return ErrorAnswer(absl::NotFoundError("no such process is held"));
    absl::StatusOr<gateway::net::ProcessHandle> process = held.mapped()->Release();
    if (!process.ok()) return ErrorAnswer(process.status());
    released_ = *std::move(process);
    fds.push_back(released_.fd());
    return json::object();
  }

  json Find() {
    json runs = json::array();
    for (const auto& [id, wrapper] : host_->FindRuns()) {
      json run = {{"id", id}};
      if (wrapper) {
        run["pid"] = wrapper->pid;
        run["start_ticks"] = wrapper->start_ticks;
        run["record"] = wrapper->record;
      }
      runs.push_back(std::move(run));
    }
    return {{"runs", std::move(runs)}};
  }

  json MakeCgroup(const std::string& id, const RunLimits& limits) {
    if (!IsRunId(id)) return ErrorAnswer(absl::InvalidArgumentError("not the id of a run"));
    return {{"cgroup", host_->MakeCgroup(id, limits)}};
  }

  json EndCgroup(const std::string& cgroup, bool kill) {
    const size_t slash = cgroup.rfind('/');
    const bool whole = cgroup == host_->cgroups();
    if (cgroup.empty() ||
        (!whole && (slash == std::string::npos || !MayBe(cgroup.substr(slash + 1), cgroup))))
      return json::object();
    if (!kill) {
      host_->RemoveCgroup(cgroup);
    } else if (!whole) {
      host_->KillCgroup(cgroup);
    }
    return json::object();
  }

  // Whether that is the cgroup of the run with that id, or none.
  bool MayBe(const std::string& id, const std::string& cgroup) const {
    return cgroup.empty() || (IsRunId(id) && cgroup == host_->cgroups() + "/" + id);
  }

  ProcessChannel& channel_;
  std::unique_ptr<LocalRunHost> host_;
  std::map<pid_t, std::unique_ptr<HeldRun>> held_;
  gateway::net::ProcessHandle released_;  // until the answer that has it is sent
};

}  // namespace

void ServeBroker(ProcessChannel& channel) {
  Server(channel).Run();
}

bool Broker::MaySplit() {
  return MayChangeUsers();
}

std::unique_ptr<Broker> Broker::Split() {
  if (!MaySplit()) return nullptr;
  auto ends = ProcessChannel::MakePair();
  if (!ends) return nullptr;
  const pid_t child = fork();
  if (child < 0) return nullptr;
  if (child > 0) return std::unique_ptr<Broker>(new Broker(child, std::move(ends->first)));
  // Signals of a terminal are for the gateway: this one ends when the gateway has.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // the exit status of a wrapper is not needed
  prctl(PR_SET_NAME, "tidegate-broker");
  prctl(PR_SET_DUMPABLE, 0);
  {
    ProcessChannel theirs = std::move(ends->second);
    ends.reset();
    ServeBroker(theirs);
  }
  _exit(0);
}

absl::StatusOr<std::unique_ptr<RunHost>> Broker::MakeHost(const std::string& token,
                                                          const std::string& wrapper,
                                                          std::vector<std::string> users) {
  if (!channel_) return absl::FailedPreconditionError("the launch broker serves another launcher");
  return BrokeredRunHost::Make(std::move(channel_), {.token = token,
                                                     .wrapper = wrapper,
                                                     .users = std::move(users),
                                                     .owner = geteuid(),
                                                     .owner_group = getegid()});
}

}  // namespace plugins::launchers
