#include "gateway/control/starts/start_reports.h"

#include <algorithm>
#include <utility>

#include "gateway/log.h"
#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"
#include "plugins/launchers/run_log.h"
#include "plugins/weights/progress.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kReportEvery = std::chrono::seconds(1);
constexpr size_t kMostReads = 16;         // at a time
constexpr size_t kStartBytes = 1U << 20;  // of a log

// Of a file that may be growing.
std::string ReadHead(const std::string& path, plugins::launchers::LogOwner owner) {
  const absl::StatusOr<net::Fd> file = plugins::launchers::OpenLogForReading(path, owner);
  if (!file.ok()) return {};
  std::string text(kStartBytes, '\0');
  const absl::StatusOr<size_t> size = net::ReadAt(file->get(), path, 0, text);
  text.resize(size.value_or(0));
  return text;
}

}  // namespace

net::Task<std::string> StartReports::ReadStart(std::string run, std::string log) {
  if (!log.empty()) {
    const auto owner = context_.launcher->shared() != nullptr ? plugins::launchers::LogOwner::kAnyone
                                                              : plugins::launchers::LogOwner::kThisProcess;
    co_return co_await net::OffLoop(loop_, [&log, owner] { return ReadHead(log, owner); });
  }
  absl::StatusOr<std::string> text = co_await context_.launcher->ReadLog(std::move(run));
  if (!text.ok()) co_return std::string();
  if (text->size() > kStartBytes) text->resize(kStartBytes);
  co_return *std::move(text);
}

net::Task<std::string> StartReports::ReadNow(std::string id) {
  const Workload* replica = workloads_.Find(id);
  if (replica == nullptr || replica->members.empty()) co_return std::string();
  const config::ModelPolicy* const policy = env_.policy(replica->model);
  const bool fetches = policy != nullptr && policy->weights && !replica->serving.weights_known;
  const std::string run = replica->members.front().run;
  const std::string log = replica->members.front().log;
  if (fetches) co_await Read(std::move(id));
  co_return co_await ReadStart(run, log);
}

// Weights of its policy, or data sets of its job.
bool StartReports::Fetches(const Workload& workload) const {
  if (workload.kind == Kind::kJob) return !workload.file().data.empty();
  const config::ModelPolicy* const policy =
      workload.kind == Kind::kReplica ? env_.policy(workload.model) : nullptr;
  return policy != nullptr && policy->weights;
}

void StartReports::Tick() {
  const conf::TimePoint now = context_.now();
  std::vector<std::string> due;
  for (Workload& replica : workloads_.all()) {
    if (due.size() + under_way_ >= kMostReads) break;
    if (replica.serving.reading || now < replica.serving.next_read) continue;
    const bool comes = replica.state == State::kStarting || replica.state == State::kRunning;
    if (!comes || replica.serving.weights_known || replica.serving.woken) continue;
    if (!Fetches(replica)) continue;
    if (std::ranges::none_of(replica.members, &Member::started)) continue;
    replica.serving.reading = true;
    replica.serving.next_read = now + kReportEvery;
    due.push_back(replica.id);
  }
  for (std::string& id : due) context_.spawn(Read(std::move(id)));
}

net::Task<void> StartReports::Read(std::string id) {
  ++under_way_;
  std::vector<std::pair<std::string, std::string>> logs;  // by run
  std::vector<std::string> nodes;
  if (const Workload* const replica = workloads_.Find(id)) {
    for (const Member& member : replica->members) {
      logs.emplace_back(member.run, member.log);
      nodes.push_back(NodeOf(context_.cluster(), member.at));
    }
  }
  WeightsArrival arrival{.members = static_cast<uint32_t>(logs.size())};
  std::vector<std::pair<size_t, std::string>> notes;  // by member
  for (size_t i = 0; i < logs.size(); ++i) {
    const std::string text = co_await ReadStart(logs[i].first, logs[i].second);
    const auto progress = plugins::weights::LastProgress(text);
    if (!progress) continue;
    arrival.bytes += progress->bytes;
    arrival.of += progress->of;
    if (progress->phase != plugins::weights::FetchPhase::kFetched) continue;
    ++arrival.arrived;
    arrival.transferred += progress->transferred;
    arrival.neighbours += progress->neighbours;
    for (const std::string& note : progress->notes) notes.emplace_back(i, note);
    arrival.at = std::max(arrival.at, progress->at);
    env_.listed(nodes[i], progress->holds, progress->at);
  }
  --under_way_;
  Workload* const replica = workloads_.Find(id);
  if (replica == nullptr) co_return;
  replica->serving.reading = false;
  // It may have begun a new attempt meanwhile.
  if (logs.empty() || replica->members.empty() || replica->members.front().run != logs.front().first)
    co_return;
  // Nodes have clocks of their own.
  if (arrival.at != conf::TimePoint() && replica->state == State::kStarting)
    arrival.at = std::clamp(arrival.at, replica->since, std::max(replica->since, context_.now()));
  replica->serving.arrival = arrival;
  if (arrival.complete() && !replica->serving.weights_known) {
    for (const auto& [member, note] : notes)
      log::Warn("weights came from elsewhere",
                {{"run", logs[member].first}, {"node", nodes[member]}, {"why", note}});
  }
  // A running replica prints nothing new about its start; a log that has lost its beginning never has it again.
  replica->serving.weights_known = arrival.complete() || replica->state == State::kRunning;
}

}  // namespace gateway::control
