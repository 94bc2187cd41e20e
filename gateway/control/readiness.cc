#include "gateway/control/readiness.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/control/grant.h"
#include "gateway/log.h"
#include "gateway/net/http/fetch.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kTimeout = std::chrono::seconds(2);
constexpr conf::Duration kShortestPause = std::chrono::milliseconds(50);
constexpr conf::Duration kLongestPause = std::chrono::seconds(1);
constexpr size_t kMaxProbes = 64;  // at a time

bool Comes(const Workload& replica) {
  return replica.state == State::kStarting && replica.serving.endpoint != nullptr;
}

}  // namespace

void Readiness::Tick() {
  const conf::TimePoint now = context_.now();
  std::vector<std::string> due;
  for (const Workload& replica : workloads_.all()) {
    if (due.size() + under_way_ >= kMaxProbes) break;
    if (Comes(replica) && !replica.serving.probing && now >= replica.serving.next_probe)
      due.push_back(replica.id);
  }
  for (std::string& id : due) context_.spawn(Probe(std::move(id)));
}

net::Task<void> Readiness::Probe(std::string id) {
  Workload* replica = workloads_.Find(id);
  const config::ModelPolicy* const policy = policy_(replica->model);
  if (policy == nullptr) co_return;
  const std::string path = policy->replica->ready.path;
  net::http::FetchRequest request;
  request.url = {false, replica->serving.endpoint->url.host,
                 std::to_string(replica->serving.endpoint->url.port), path, ""};
  request.timeout = kTimeout;
  replica->serving.probing = true;
  ++under_way_;
  const std::string run = replica->members.front().run;
  const absl::StatusOr<net::http::FetchResponse> answer =
      co_await net::http::Fetch(loop_, std::move(request), &fetches_);
  // A process that took the port first would be handed prompts.
  absl::Status port = absl::OkStatus();
  if (answer.ok() && answer->status < 300) port = co_await context_.launcher->CheckPort(run);
  --under_way_;
  replica = workloads_.Find(id);
  if (replica == nullptr) co_return;
  replica->serving.probing = false;
  if (!Comes(*replica)) co_return;
  const conf::TimePoint now = context_.now();
  const conf::Duration took = now - replica->since;
  const bool another = absl::IsFailedPrecondition(port);
  if (!answer.ok() || answer->status >= 300 || another) {
    replica->members.front().why = another       ? std::string(conf::Std(port.message()))
                                   : answer.ok() ? fmt::format("{} answers {}", path, answer->status)
                                                 : std::string(conf::Std(answer.status().message()));
    replica->serving.next_probe = now + std::clamp(took / 20, kShortestPause, kLongestPause);
    co_return;
  }
  const std::string kind = KindOfDevices(*replica);
  if (!replica->adopted) cold_starts_.Add(replica->model, kind, took);
  log::Info("replica ready", {{"replica", id}, {"seconds", conf::ToSeconds(took)}});
  workloads_.Enter(*replica, State::kRunning,
                   replica->adopted
                       ? "it answers"
                       : fmt::format("it answers, {:.1f}s after its launch", conf::ToSeconds(took)));
}

// Of its leader; empty: it has none.
std::string Readiness::KindOfDevices(const Workload& replica) const {
  const scheduler::Holding& holding = replica.members.front().at.holding;
  if (holding.node >= context_.cluster().nodes.size()) return {};
  return GrantOf(context_.cluster(), holding).kind;
}

}  // namespace gateway::control
