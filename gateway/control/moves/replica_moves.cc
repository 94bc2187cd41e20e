#include "gateway/control/moves/replica_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "gateway/log.h"

namespace gateway::control {
namespace {

// It serves, or will once it is probed again after a restart.
bool Stays(const Workload& replica) {
  return replica.holds() && !replica.ends() && replica.state != State::kAsleep;
}

}  // namespace

bool ReplicaMoves::Begin(Workload& replica, const scheduler::Action& move) {
  const auto replaces_it = [&](const Workload& other) { return other.replaces == replica.id; };
  const bool may = replica.state == State::kRunning && !replica.for_batches && !replica.serving.set_aside &&
                   replica.replaces.empty() && move.members.size() == replica.members.size() &&
                   std::ranges::none_of(workloads_.all(), replaces_it);
  if (!may) return false;
  const conf::TimePoint now = context_.now();
  Workload& next = replicas_.Add(
      replica.model, fmt::format("it takes the place of {}, which {}", replica.id, move.why.text));
  if (!replicas_.MayBePlaced(next)) {
    workloads_.Drop(next);
    return false;
  }
  next.replaces = replica.id;
  next.moved = replica.moved = now;
  next.gain = replica.gain = move.why.text;
  context_.planning->HandOver(replica.id, replicas_.AskOf(next), now);
  workloads_.Place(next, move.members, next.why);
  moving_[next.id] = {.old = replica.id};
  ++counts_.replicas;
  ++replica.version;
  replica.saved = false;
  log::Info("replica moves", {{"replica", replica.id}, {"by", next.id}, {"why", move.why.text}});
  return true;
}

void ReplicaMoves::SetAside() {
  for (const Workload& next : workloads_.all()) {
    if (next.replaces.empty() || next.state != State::kRunning) continue;
    if (Workload* const old = workloads_.Find(next.replaces)) old->serving.set_aside = true;
  }
}

void ReplicaMoves::Tick() {
  std::map<std::string, uint32_t> ready;  // by model, without those that are replaced
  std::vector<std::string> ids;
  for (const Workload& workload : workloads_.all()) {
    if (workload.kind != Kind::kReplica) continue;
    const bool counts = !workload.for_batches && !workload.serving.set_aside;
    if (workload.state == State::kRunning && counts) ++ready[workload.model];
    if (workload.replaces.empty()) continue;
    ids.push_back(workload.id);
    moving_.try_emplace(workload.id, Move{.old = workload.replaces});  // of an earlier process
  }
  for (const std::string& id : ids) {
    Workload& next = *workloads_.Find(id);
    Workload* const old = workloads_.Find(next.replaces);
    if (old == nullptr || old->state == State::kAsleep) {
      next.replaces.clear();  // a replica like others from now
      ++next.version;
      next.saved = false;
      continue;
    }
    const bool serves = next.state == State::kRunning && next.recorded;
    if (old->state != State::kRunning || old->busy || !serves) continue;
    if (ready[next.model] < env_.wanted(next.model)) continue;
    ++counts_.done;
    moving_[id].retired = true;
    replicas_.Retire(*old, fmt::format("{} serves in its place: it {}", next.id, next.gain));
  }
  std::erase_if(moving_, [&](const auto& entry) {
    const auto& [id, move] = entry;
    const Workload* const next = workloads_.Find(id);
    const Workload* const old = workloads_.Find(move.old);
    if (old == nullptr || move.retired) return old == nullptr;
    const bool failed = next == nullptr || next->ends();
    if (!failed && Stays(*old)) return false;
    if (failed) {
      ++counts_.failed;
      log::Warn("a replica stays where it is, since its replacement failed to start", {{"replica", old->id}});
    }
    context_.planning->Unmove(old->id, context_.now());  // it may be taken back
    return true;
  });
}

}  // namespace gateway::control
