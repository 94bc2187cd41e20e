#include "scheduler/cycle/defrag.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace scheduler {
namespace {

bool IsEmpty(const ClusterState& state, NodeId node) {
  return state.on(node).empty();
}

bool IsFragmented(const ClusterState& state, NodeId node) {
  const NodeState& now = state.node(node);
  return now.devices > 0 && !state.on(node).empty() && FreeMilli(now, state.view_of(node)) > 0;
}

int64_t HeldOn(const ClusterState& state, NodeId node) {
  int64_t milli = 0;
  for (const MemberId id : state.on(node)) milli += HeldMilli(state.member(id).holding, state.view_of(node));
  return milli;
}

// The members on a node, the largest first; the order depends on the members alone.
std::vector<Member> MembersOn(const ClusterState& state, const JobTable& jobs, NodeId node) {
  std::vector<Member> members;
  for (const MemberId id : state.on(node)) members.push_back(state.member(id));
  std::ranges::sort(members, {}, [&](const Member& m) {
    return std::tuple(-HeldMilli(m.holding, state.view_of(node)), jobs[m.job].sequence, m.role, m.rank);
  });
  return members;
}

}  // namespace

Defragmenter::Defragmenter(const JobTable& jobs, const DefragmentPolicy& policy, Movable movable,
                           PlacerOf placer, KeepOff keep_off)
    : jobs_(&jobs),
      policy_(&policy),
      movable_(std::move(movable)),
      placer_(std::move(placer)),
      keep_off_(std::move(keep_off)) {}

std::vector<Relocation> Defragmenter::Round(Trial& trial, Rng& rng) {
  moves_.clear();
  const ClusterState& state = trial.state();
  const std::vector<Domain>& domains = state.cluster().fabric.domains;
  for (DomainId root = 0; root < domains.size(); ++root) {
    if (domains[root].parent != kNone) continue;
    const std::span<const NodeId> all = state.nodes_under(root);
    const size_t size = std::max<size_t>(policy_->partition_nodes, 2);
    for (size_t begin = 0; begin < all.size(); begin += size) {
      Partition(trial, all.subspan(begin, std::min(size, all.size() - begin)), rng);
    }
  }
  return std::move(moves_);
}

void Defragmenter::Partition(Trial& trial, std::span<const NodeId> nodes, Rng& rng) {
  const ClusterState& state = trial.state();
  std::vector<std::pair<int64_t, NodeId>> sources;
  for (const NodeId node : nodes) {
    const auto stays = [&](MemberId id) { return !movable_(state.member(id)); };
    if (IsFragmented(state, node) && std::ranges::none_of(state.on(node), stays)) {
      sources.emplace_back(HeldOn(state, node), node);
    }
  }
  std::ranges::sort(sources);

  NodeSet inside(state.cluster().nodes.size());
  for (const NodeId node : nodes) inside.Add(node);
  closed_ = NodeSet(state.cluster().nodes.size());
  for (NodeId node = 0; node < state.cluster().nodes.size(); ++node) {
    if (!inside.Has(node) || IsEmpty(state, node)) closed_.Add(node);
  }
  for (const auto& [held, source] : sources) {
    if (moves_.size() >= policy_->max_moves) return;
    // If the node has taken in members of other nodes meanwhile, it is not emptied.
    if (HeldOn(state, source) == held) Empty(trial, source, nodes, rng);
  }
}

std::optional<Holding> Defragmenter::RoomFor(const Member& member, Rng& rng) {
  const NodeSet* except = &closed_;
  if (const NodeSet* zone = keep_off_(member.job)) {
    forbidden_ = closed_;
    forbidden_.AddAll(*zone);
    except = &forbidden_;
  }
  const JobEntry& entry = (*jobs_)[member.job];
  const Where where{
      .under = kNone, .except = except, .apart_from = entry.job.anti_affinity ? member.job : kNone};
  return placer_(member.job).Choose(entry.shapes[member.role], where, rng);
}

void Defragmenter::Move(Trial& trial, const Member& member, const Holding& to) {
  Member moved = member;
  moved.holding = to;
  trial.Assign(moved);
  moves_.push_back({member.job, member, to});
}

bool Defragmenter::MayMove(const Member& member) const {
  const auto moves = [&](const Relocation& move) {
    return move.job == member.job && move.from.role == member.role && move.from.rank == member.rank;
  };
  return movable_(member) && std::ranges::none_of(moves_, moves);
}

bool Defragmenter::Empty(Trial& trial, NodeId source, std::span<const NodeId> nodes, Rng& rng) {
  const ClusterState& state = trial.state();
  const std::vector<Member> members = MembersOn(state, *jobs_, source);
  if (moves_.size() + members.size() > policy_->max_moves) return false;
  const auto stays = [&](const Member& member) { return !MayMove(member); };
  if (std::ranges::any_of(members, stays)) return false;
  const Trial::Mark mark = trial.mark();
  const size_t moves = moves_.size();
  closed_.Add(source);
  for (const Member& member : members) {
    if (const std::optional<Holding> to = RoomFor(member, rng)) {
      Move(trial, member, *to);
      continue;
    }
    trial.Rollback(mark);
    moves_.resize(moves);
    closed_.Remove(source);
    return policy_->depth > 1 && MakeRoom(trial, member, nodes, policy_->depth - 1, rng);
  }
  return true;
}

// Moves one smaller member off a node on which `member` would fit without it.
bool Defragmenter::MakeRoom(Trial& trial, const Member& member, std::span<const NodeId> nodes, uint32_t depth,
                            Rng& rng) {
  const ClusterState& state = trial.state();
  const JobEntry& entry = (*jobs_)[member.job];
  const int64_t size = HeldMilli(member.holding, state.view_of(member.holding.node));
  for (const NodeId node : nodes) {
    if (node == member.holding.node || !IsFragmented(state, node)) continue;
    for (const Member& other : MembersOn(state, *jobs_, node)) {
      if (!MayMove(other) || HeldMilli(other.holding, state.view_of(node)) >= size) continue;
      const Trial::Mark mark = trial.mark();
      for (const MemberId id : state.on(node)) {
        if (state.member(id) == other) {
          trial.Evict(id);
          break;
        }
      }
      const bool would_fit = placer_(member.job).On(node, entry.shapes[member.role]).has_value();
      trial.Rollback(mark);
      if (!would_fit) continue;
      closed_.Add(node);
      closed_.Add(member.holding.node);
      const std::optional<Holding> to = RoomFor(other, rng);
      closed_.Remove(node);
      closed_.Remove(member.holding.node);
      if (to) {
        Move(trial, other, *to);
        return true;
      }
      if (depth > 1 && MakeRoom(trial, other, nodes, depth - 1, rng)) return true;
    }
  }
  return false;
}

}  // namespace scheduler
