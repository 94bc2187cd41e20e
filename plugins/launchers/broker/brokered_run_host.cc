#include "plugins/launchers/broker/brokered_run_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace plugins::launchers {

using gateway::net::ProcessHandle;
using nlohmann::json;

namespace {

constexpr std::string_view kGone =
    "the launch broker is gone, so that nothing can be started; start the gateway again";

}  // namespace

class BrokeredRunHost::Held final : public HeldRun {
 public:
  Held(BrokeredRunHost& host, pid_t pid, uint64_t start_ticks)
      : host_(host), pid_(pid), start_ticks_(start_ticks) {}
  ~Held() override {
    if (!released_) host_.Ask({{"ask", "drop"}, {"pid", pid_}}).status().IgnoreError();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  pid_t pid() const override { return pid_; }
  uint64_t start_ticks() const override { return start_ticks_; }
  absl::StatusOr<ProcessHandle> Release() override {
    released_ = true;
    absl::StatusOr<Answer> answer = host_.Ask({{"ask", "release"}, {"pid", pid_}});
    if (!answer.ok()) return answer.status();
    if (answer->fds.size() != 1) return absl::UnavailableError("the launch broker sent no process");
    return ProcessHandle(std::move(answer->fds.front()));
  }

 private:
  BrokeredRunHost& host_;
  const pid_t pid_;
  const uint64_t start_ticks_;
  bool released_ = false;
};

absl::StatusOr<std::unique_ptr<RunHost>> BrokeredRunHost::Make(
    std::unique_ptr<gateway::net::ProcessChannel> channel, const ask::Seal& seal) {
  std::unique_ptr<BrokeredRunHost> host(new BrokeredRunHost(std::move(channel)));
  const absl::StatusOr<Answer> answer = host->Ask({{"ask", "seal"}, {"seal", seal}});
  if (!answer.ok()) return answer.status();
  answer->body.at("cgroups").get_to(host->cgroups_);
  answer->body.at("users").get_to(host->users_);
  return host;
}

absl::StatusOr<BrokeredRunHost::Answer> BrokeredRunHost::Ask(const json& question,
                                                             const std::vector<int>& fds) {
  const std::lock_guard lock(mutex_);
  std::optional<gateway::net::ProcessChannel::Message> message;
  if (channel_->Send(json::to_cbor(question), fds)) message = channel_->Receive();
  if (!message) {
    gone_ = true;
    return absl::UnavailableError(std::string(kGone));
  }
  Answer answer{.body = json::from_cbor(message->bytes, true, false), .fds = std::move(message->fds)};
  if (absl::Status failed = StatusOf(answer.body); !failed.ok()) return failed;
  return answer;
}

std::string BrokeredRunHost::trouble() const {
  // A broker that was killed answers nothing; it is noticed before somebody asks it for something.
  return gone_ || channel_->OtherEndGone() ? std::string(kGone) : std::string();
}

absl::StatusOr<RunUser> BrokeredRunHost::UserOf(const std::string& name) const {
  const auto found = std::ranges::find(users_, name, &RunUser::name);
  if (found != users_.end()) return *found;
  return absl::InvalidArgumentError(
      fmt::format("runs could not become the user {} when the gateway started; start it again", name));
}

absl::StatusOr<std::unique_ptr<HeldRun>> BrokeredRunHost::Hold(const RunOrder& order, int log,
                                                               int until_run) {
  const absl::StatusOr<Answer> answer = Ask({{"ask", "hold"}, {"order", order}}, {log, until_run});
  if (!answer.ok()) return answer.status();
  return std::make_unique<Held>(*this, answer->body.at("pid").get<pid_t>(),
                                answer->body.at("start_ticks").get<uint64_t>());
}

std::map<std::string, std::optional<FoundWrapper>> BrokeredRunHost::FindRuns() {
  std::map<std::string, std::optional<FoundWrapper>> runs;
  const absl::StatusOr<Answer> answer = Ask({{"ask", "find"}});
  if (!answer.ok()) return runs;
  for (const json& run : answer->body.at("runs")) {
    std::optional<FoundWrapper>& wrapper = runs[run.at("id").get<std::string>()];
    if (!run.contains("pid")) continue;
    const pid_t pid = run.at("pid").get<pid_t>();
    const uint64_t start_ticks = run.at("start_ticks").get<uint64_t>();
    if (std::optional<ProcessHandle> process = ProcessHandle::Open(pid, start_ticks))
      wrapper = FoundWrapper{pid, start_ticks, *std::move(process), run.at("record").get<std::string>()};
  }
  return runs;
}

size_t BrokeredRunHost::Signal(const RunMark& mark, int signal) {
  const absl::StatusOr<Answer> answer = Ask({{"ask", "signal"}, {"mark", mark}, {"signal", signal}});
  // Processes of others can be seen without rights, and so can it be seen that a run has ended.
  return answer.ok() ? answer->body.at("members").get<size_t>() : FindMembers(mark).size();
}

gateway::net::PortUse BrokeredRunHost::CheckPort(const RunMark& mark, const std::string& host,
                                                 uint16_t port) {
  const absl::StatusOr<Answer> answer =
      Ask({{"ask", "port"}, {"mark", mark}, {"host", host}, {"port", port}});
  if (!answer.ok()) return {};
  return {.taken = answer->body.at("taken").get<bool>(), .by_these = answer->body.at("by_these").get<bool>()};
}

std::vector<std::pair<std::string, std::string>> BrokeredRunHost::EnvironmentOf(pid_t pid) {
  const absl::StatusOr<Answer> answer = Ask({{"ask", "environment"}, {"pid", pid}});
  if (!answer.ok()) return {};
  return answer->body.at("environment").get<std::vector<std::pair<std::string, std::string>>>();
}

std::string BrokeredRunHost::MakeCgroup(const std::string& id, const RunLimits& limits) {
  const absl::StatusOr<Answer> answer = Ask({{"ask", "make_cgroup"}, {"id", id}, {"limits", limits}});
  return answer.ok() ? answer->body.at("cgroup").get<std::string>() : std::string();
}

void BrokeredRunHost::KillCgroup(const std::string& cgroup) {
  if (!cgroup.empty()) Ask({{"ask", "kill_cgroup"}, {"cgroup", cgroup}}).status().IgnoreError();
}

void BrokeredRunHost::RemoveCgroup(const std::string& cgroup) {
  if (!cgroup.empty()) Ask({{"ask", "remove_cgroup"}, {"cgroup", cgroup}}).status().IgnoreError();
}

}  // namespace plugins::launchers
