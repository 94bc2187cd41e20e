#include "plugins/launchers/slurm.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/net/off_loop.h"
#include "gateway/net/transport.h"
#include "plugins/launchers/slurm/results.h"

namespace plugins::launchers {
namespace {

using gateway::net::Now;
using gateway::net::Task;

constexpr conf::Duration kNodesEvery = std::chrono::seconds(5);
constexpr conf::Duration kMostWait = std::chrono::seconds(15);
// After this time by our clock, Slurm's clock has reached another second.
constexpr conf::Duration kNextSecond = std::chrono::milliseconds(1500);
// The reason why a job waits may change without a new stamp: while a run waits, all jobs are asked for this
// often.
constexpr conf::Duration kReasonsEvery = std::chrono::seconds(5);
constexpr conf::Duration kSlurmdPatience = std::chrono::seconds(1);
// For a run that asks for no memory and has no devices, by which it would get a share of the node's.
constexpr int64_t kLeastMemoryMib = 1024;

// Why a node takes no work: its state, its flags and the reason that Slurm shows.
std::string WhyNot(const slurm::Node& node) {
  std::string why = fmt::format("Slurm says {}", node.state);
  for (const std::string& flag : node.flags) why += fmt::format(" {}", flag);
  if (!node.reason.empty()) why += fmt::format(" ({})", node.reason);
  return why;
}

// A job that is gone needs no signal.
bool IsGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

SlurmLauncher::SlurmLauncher(gateway::net::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      client_(loop, options_.server),
      runs_({options_.state, options_.server.user}, options_.ports),
      backoff_(options_.poll, kMostWait, options_.seed),
      sleep_(loop.watchdog) {}

SlurmLauncher::~SlurmLauncher() = default;

void SlurmLauncher::Open() {
  open_ = true;
  loop_.tasks.Spawn(Watch());
}

Task<void> SlurmLauncher::Close() {
  closed_ = true;
  client_.Abort();
  asked_.Abort();
  sleep_.Cancel();
  if (open_) co_await stopped_.Wait();
}

Task<void> SlurmLauncher::Watch() {
  while (!closed_) {
    const absl::Status refreshed = co_await Refresh();
    if (closed_) break;
    for (const std::string& id : std::exchange(changed_, {})) on_change(id);
    conf::Duration wait = backoff_.Next();
    if (refreshed.ok()) {
      backoff_.Reset();
      const conf::Duration poll = runs_.Moving() ? options_.poll / 4 : options_.poll;
      wait = backoff_.Jitter(poll * 3 / 4, poll * 5 / 4);
    }
    co_await sleep_.For(wait);
  }
  stopped_.Set();
}

Task<absl::Status> SlurmLauncher::Refresh() {
  absl::Status status = absl::OkStatus();
  if (nodes_.empty() || Now() - nodes_at_ >= kNodesEvery) status = co_await RefreshNodes();
  if (status.ok()) status = co_await RefreshJobs(false);
  if (status.ok()) co_await Kill(runs_.Due(Now()));
  co_return status;
}

Task<absl::Status> SlurmLauncher::RefreshNodes() {
  absl::StatusOr<std::vector<slurm::Node>> nodes = co_await client_.Nodes();
  if (!nodes.ok()) co_return Failed(nodes.status());
  nodes_ = *std::move(nodes);
  nodes_at_ = Now();
  addresses_.clear();
  for (const slurm::Node& node : nodes_) addresses_[node.name] = node.address;
  Share();
  co_return absl::OkStatus();
}

// A change in the second of the newest stamp may have come after the list was made. Once a list was asked for
// in a later second, asking for changes after that stamp is enough.
Task<absl::Status> SlurmLauncher::RefreshJobs(bool all) {
  const uint64_t stamp = runs_.Stamp();
  const conf::TimePoint asked = Now();
  const bool reasons = runs_.Moving() && asked - all_at_ >= kReasonsEvery;
  const bool newer = settled_ && !all && !reasons;
  absl::StatusOr<std::optional<slurm::JobList>> list = co_await client_.Jobs(newer ? latest_ + 1 : 0);
  if (!list.ok()) co_return Failed(list.status());
  if (!newer) all_at_ = asked;
  health_ = absl::OkStatus();
  jobs_at_ = Now();
  if (!*list) co_return absl::OkStatus();
  jobs_ = std::move((*list)->jobs);
  listed_ = true;
  if (const int64_t latest = (*list)->latest; latest != latest_) {
    latest_ = latest;
    latest_since_ = jobs_at_;
    settled_ = false;
  } else {
    settled_ = latest_ > 0 && asked - latest_since_ >= kNextSecond;
  }
  slurm::Runs::Outcome outcome = runs_.Apply(jobs_, addresses_, stamp, jobs_at_);
  changed_.insert(outcome.changed.begin(), outcome.changed.end());
  Share();
  co_await ReadResults();
  co_await Kill(std::move(outcome.kill));
  co_return absl::OkStatus();
}

// Reads the results of ended runs. The first time it reads all results: slurmctld may have forgotten their jobs while
// no gateway ran.
Task<void> SlurmLauncher::ReadResults() {
  if (options_.logs.empty()) co_return;
  if (!recalled_) {
    recalled_ = true;
    const std::map<std::string, slurm::Result> results = co_await gateway::net::OffLoop(
        loop_, [this] { return slurm::FindResults(options_.logs, options_.state); });
    for (const auto& [id, result] : results) {
      if (runs_.AddResult(id, result.mark, result.times)) changed_.insert(id);
    }
  }
  for (const std::string& id : runs_.WithoutResult()) {
    if (!read_.insert(id).second) continue;
    const RunResult result = co_await gateway::net::OffLoop(
        loop_,
        [file = slurm::ResultPath(options_.logs, id)] { return ReadResultFile(file).value_or(RunResult()); });
    if (runs_.AddResult(id, slurm::Mark(), result)) changed_.insert(id);
  }
}

std::string SlurmLauncher::AddressOf(const std::string& /*id*/, const std::string& node) const {
  return NodeAddress(node);
}

std::string SlurmLauncher::NodeAddress(const std::string& node) const {
  const slurm::Node* const known = NodeOf(node);
  return known == nullptr || known->address.empty() ? node : known->address;
}

slurm::View SlurmLauncher::view() const {
  return slurm::ViewOf(nodes_, jobs_,
                       {.partition = options_.partition,
                        .gres = options_.gres,
                        .preemptible_partitions = options_.preemptible_partitions,
                        .preemptible_qos = options_.preemptible_qos},
                       [this](const slurm::Job& job) { return runs_.IsOurs(job); });
}

void SlurmLauncher::Share() {
  const slurm::View seen = view();
  const scheduler::Cluster& cluster = seen.cluster;
  std::vector<SharedNode> nodes;
  nodes.reserve(cluster.nodes.size());
  for (const scheduler::Node& node : cluster.nodes) {
    const scheduler::NodeType& type = cluster.types[node.type];
    nodes.push_back({.name = node.name,
                     .health = node.health,
                     .kind = type.devices > 0 ? cluster.kinds[type.kind].name : std::string(),
                     .devices = type.devices});
    if (node.health == scheduler::Health::kHealthy) continue;
    const slurm::Node* const said = NodeOf(node.name);
    if (said == nullptr) continue;
    nodes.back().why = WhyNot(*said);
    if (slurm::IsDrained(*said)) nodes.back().leaving = Leaving::kReplicas;
  }
  for (const slurm::Occupant& occupant : seen.occupants) {
    if (occupant.ours || occupant.preemptible) continue;
    for (const slurm::NodeShare& holding : occupant.holds)
      nodes[holding.node].taken += static_cast<uint32_t>(holding.devices.size());
  }
  if (nodes == shared_.nodes && seen.left_out == shared_.left_out) return;
  shared_.nodes = std::move(nodes);
  shared_.left_out = seen.left_out;
  ++shared_.version;
}

Task<void> SlurmLauncher::Kill(std::vector<uint32_t> jobs) {
  for (const uint32_t job : jobs) {
    const absl::Status killed = co_await client_.Signal(job, SIGKILL);
    if (!killed.ok() && !IsGone(killed)) settled_ = false;  // the next list is whole, and shows it again
  }
}

absl::Status SlurmLauncher::Failed(const absl::Status& why) {
  settled_ = false;
  if (!absl::IsCancelled(why)) health_ = why;
  return absl::UnavailableError(why.message());
}

const slurm::Node* SlurmLauncher::NodeOf(const std::string& name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&name](const slurm::Node& node) { return node.name == name; });
  return found == nodes_.end() ? nullptr : &*found;
}

std::string SlurmLauncher::LogOf(const std::string& id) const {
  return options_.logs.empty() ? std::string() : fmt::format("{}/{}.log", options_.logs, id);
}

// CPUs and memory that a run does not ask for are given in proportion to its devices: Slurm's own default is
// often all of the node's memory, and then the next run waits for it.
absl::StatusOr<slurm::Submission> SlurmLauncher::Compose(const RunSpec& spec, const slurm::Node& node) const {
  slurm::Submission submission;
  submission.run = spec;
  submission.host = node.address.empty() ? node.name : node.address;
  submission.partition = options_.partition;
  submission.account = options_.account;
  submission.qos = options_.qos;
  submission.log = LogOf(spec.id);
  submission.result = slurm::ResultPath(options_.logs, spec.id);
  if (submission.run.directory.empty()) submission.run.directory = options_.directory;
  const auto count = static_cast<uint32_t>(spec.grant.devices.size());
  uint32_t of = 0;
  if (count > 0) {
    const auto has = std::find_if(node.gres.begin(), node.gres.end(), [&](const slurm::Gres& gres) {
      const bool is_device =
          std::find(options_.gres.begin(), options_.gres.end(), gres.name) != options_.gres.end();
      return is_device && (gres.type.empty() ? gres.name : gres.type) == spec.grant.kind;
    });
    if (has == node.gres.end() || has->count < count) {
      return absl::InvalidArgumentError(fmt::format("run {}: Slurm's node {} has no {} devices of kind {}",
                                                    spec.id, node.name, count, spec.grant.kind));
    }
    of = has->count;
    submission.gres = fmt::format("{}{}{}:{}", has->name, has->type.empty() ? "" : ":", has->type, count);
  }
  submission.cpus = of > 0 ? std::max(1U, node.cpus * count / of) : 1;
  submission.memory_mib = of > 0 ? node.memory_mib * count / of : kLeastMemoryMib;
  if (spec.grant.cpu_milli > 0) {
    submission.cpus =
        static_cast<uint32_t>(std::min<int64_t>((spec.grant.cpu_milli + 999) / 1000, UINT32_MAX));
  }
  if (spec.grant.memory_mib > 0) submission.memory_mib = spec.grant.memory_mib;
  submission.mark = {options_.state, spec.owner, spec.tenant, 0, spec.epoch};
  if (spec.serves) {
    submission.mark.port = runs_.PickPort(spec.id, node.address);
    if (submission.mark.port == 0) {
      return absl::UnavailableError(fmt::format("run {}: every port from {} to {} is in use on {}", spec.id,
                                                options_.ports.first, options_.ports.last, node.name));
    }
  }
  return submission;
}

Task<absl::Status> SlurmLauncher::Start(RunSpec spec) {
  if (const std::string defect = slurm::FirstDefect(spec); !defect.empty()) {
    co_return absl::InvalidArgumentError(defect);
  }
  const slurm::Runs::Run* run = runs_.Find(spec.id);
  if (run != nullptr && !run->lost) co_return absl::OkStatus();
  if (!NodeOf(spec.grant.node)) {
    if (absl::Status status = co_await RefreshNodes(); !status.ok()) co_return status;
  }
  if (!listed_ || run != nullptr) {
    if (absl::Status status = co_await RefreshJobs(true); !status.ok()) co_return status;
    run = runs_.Find(spec.id);
    if (run != nullptr && !run->lost) co_return absl::OkStatus();
  }
  const slurm::Node* node = NodeOf(spec.grant.node);
  if (node == nullptr) {
    co_return absl::InvalidArgumentError(
        fmt::format("run {}: Slurm has no node {}", spec.id, spec.grant.node));
  }
  absl::StatusOr<slurm::Submission> submission = Compose(spec, *node);
  if (!submission.ok()) co_return submission.status();
  runs_.Ask(spec, node->address, submission->mark.port, Now());
  const absl::StatusOr<uint32_t> job = co_await client_.Submit(slurm::RenderBody(*submission));
  if (job.ok()) {
    runs_.Submitted(spec.id, *job);
    sleep_.Cancel();  // look at once, and often, until it runs
    co_return absl::OkStatus();
  }
  if (absl::IsInvalidArgument(job.status()) || absl::IsPermissionDenied(job.status())) {
    runs_.Refused(spec.id);
    co_return absl::InvalidArgumentError(
        fmt::format("run {}: {}", spec.id, conf::Std(job.status().message())));
  }
  runs_.Lost(spec.id);
  if ((co_await RefreshJobs(true)).ok()) {
    run = runs_.Find(spec.id);
    if (run != nullptr && !run->lost) co_return absl::OkStatus();
  }
  co_return absl::UnavailableError(fmt::format("run {}: {}", spec.id, conf::Std(job.status().message())));
}

Task<absl::Status> SlurmLauncher::Stop(std::string id, conf::Duration grace) {
  const slurm::Runs::Run* run = runs_.Find(id);
  if (!listed_ || (run != nullptr && run->lost)) {
    if (absl::Status status = co_await RefreshJobs(true); !status.ok()) co_return status;
    run = runs_.Find(id);
  }
  if (run == nullptr || run->status.state == RunState::kEnded) co_return absl::OkStatus();
  if (run->lost) {
    runs_.ToldToStop(id, std::nullopt, Now());  // should it come yet
    co_return absl::OkStatus();
  }
  const bool outright = grace <= conf::Duration::zero() || run->status.state == RunState::kStarting;
  const absl::Status told = co_await client_.Signal(run->job, outright ? SIGKILL : SIGTERM);
  if (!told.ok() && !IsGone(told)) co_return Failed(told);
  runs_.ToldToStop(id, outright ? std::nullopt : std::optional(Now() + grace), Now());
  sleep_.Cancel();
  co_return absl::OkStatus();
}

Task<absl::Status> SlurmLauncher::Signal(std::string id, int signal) {
  if (!listed_) {
    if (absl::Status status = co_await RefreshJobs(true); !status.ok()) co_return status;
  }
  const slurm::Runs::Run* run = runs_.Find(id);
  const bool runs = run != nullptr && !run->lost &&
                    (run->status.state == RunState::kRunning || run->status.state == RunState::kStopping);
  if (!runs) co_return absl::NotFoundError(fmt::format("run {} does not run", id));
  const absl::Status sent = co_await client_.Signal(run->job, signal);
  if (IsGone(sent)) co_return absl::NotFoundError(fmt::format("run {} no longer runs", id));
  co_return sent.ok() ? sent : Failed(sent);
}

Task<absl::Status> SlurmLauncher::AskNode(std::string name) {
  const slurm::Node* const node = NodeOf(name);
  if (node == nullptr || node->port == 0)
    co_return absl::UnimplementedError(fmt::format("Slurm does not report where {}'s slurmd listens", name));
  const std::string port = std::to_string(node->port);
  const gateway::net::Remote remote{node->address.empty() ? name : node->address, port, nullptr, ""};
  gateway::net::AbortGroup::Member member(&asked_);
  gateway::net::Connector connector(loop_.io);
  gateway::net::ConnectDeadline deadline(loop_.watchdog, connector);
  deadline.Set(Now() + kSlurmdPatience);
  if (!member.Begin(connector)) co_return absl::CancelledError();
  const gateway::net::ConnectResult connected = co_await connector.Connect(remote);
  if (member.aborted()) co_return absl::CancelledError();
  if (!connected.error) co_return absl::OkStatus();
  co_return absl::UnavailableError(
      fmt::format("its slurmd accepts no connection at {}:{}: {}", remote.host, port,
                  deadline.passed() ? "no answer in time" : connected.error.message()));
}

Task<absl::StatusOr<std::vector<RunStatus>>> SlurmLauncher::List() {
  if (!listed_ || !health_.ok() || Now() - jobs_at_ > 2 * options_.poll) {
    if (absl::Status status = co_await Refresh(); !status.ok()) co_return status;
  }
  std::vector<RunStatus> all = runs_.List();
  for (RunStatus& status : all) {
    status.log = LogOf(status.id);
    if (status.started && status.state != RunState::kEnded)
      status.alive = std::max(jobs_at_, *status.started);
  }
  co_return all;
}

Task<absl::Status> SlurmLauncher::Forget(std::string id) {
  const slurm::Runs::Run* run = runs_.Find(id);
  if (run != nullptr && !run->lost && run->status.state != RunState::kEnded) {
    co_return absl::FailedPreconditionError(fmt::format("run {} has not ended", id));
  }
  runs_.Forget(id);
  read_.erase(id);
  if (const std::string result = slurm::ResultPath(options_.logs, id); !result.empty()) {
    co_await gateway::net::OffLoop(loop_, [&result] { return unlink(result.c_str()); });
  }
  co_return absl::OkStatus();
}

}  // namespace plugins::launchers
