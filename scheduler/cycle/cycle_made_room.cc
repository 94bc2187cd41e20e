// The part of a cycle that keeps room for those for whom others were told to leave: they start just there,
// once it is free, and nobody else is placed on these nodes until then. Room that will not come after all (a
// node failed, a bound of its queue was lowered) is given up, and its job queues again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/cycle/cycle.h"

namespace scheduler {

void Cycle::KeepRooms() {
  std::vector<Reservation> due = std::exchange(rooms_, {});
  std::erase_if(due, [&](const Reservation& room) {
    const JobEntry& entry = s_.jobs[room.job];
    return entry.phase != Phase::kPending || !s_.MayStart(entry, now_) || StartInRoom(room);
  });
  if (due.empty()) return;
  const Trial::Mark mark = trial_.mark();
  EvictWhatLeaves();
  std::erase_if(due, [&](const Reservation& room) { return !AssignRoom(room); });
  trial_.Rollback(mark);
  for (Reservation& room : due) {
    room.start = std::max(room.start, now_);
    room.end = std::max(room.end, room.start);
    if (s_.queues.Admit(s_.accounts[room.job].account, s_.accounts[room.job].minimum).admitted())
      AddRoom(std::move(room));
  }
}

bool Cycle::StartInRoom(const Reservation& room) {
  const Trial::Mark mark = trial_.mark();
  if (!AssignRoom(room)) return false;
  std::vector<MemberAt> members = room.members;
  if (!LeaveOutSurplus(room.job, members)) {
    trial_.Rollback(mark);
    return false;
  }
  Start(room.job, std::move(members), {"fits", "others have made room for it"});
  return true;
}

bool Cycle::AssignRoom(const Reservation& room) {
  const Trial::Mark mark = trial_.mark();
  const auto assign = [&](const MemberAt& member) {
    const NodeId node = member.holding.node;
    if (s_.state.health(node) != Health::kHealthy ||
        !IsFree(s_.state.node(node), member.holding, s_.state.view_of(node))) {
      return false;
    }
    trial_.Assign({room.job, member.role, member.rank, member.holding});
    return s_.state.power_headroom(node) >= 0;
  };
  if (std::ranges::all_of(room.members, assign)) return true;
  trial_.Rollback(mark);
  return false;
}

bool Cycle::HasRoomToCome(JobIndex job) const {
  return std::ranges::find(rooms_, job, &Reservation::job) != rooms_.end();
}

void Cycle::PromiseRoom(JobIndex job, std::vector<MemberAt> members) {
  Reservation room{.job = job, .start = now_, .end = {}, .nodes = {}, .members = std::move(members)};
  for (const auto& [sequence, other] : s_.running) {
    if (s_.jobs[other].phase == Phase::kStopping) room.start = std::max(room.start, s_.jobs[other].stops_at);
  }
  room.end = room.start + s_.ExpectedRun(job);
  for (const MemberAt& member : room.members) room.nodes.push_back(member.holding.node);
  std::ranges::sort(room.nodes);
  const auto repeated = std::ranges::unique(room.nodes);
  room.nodes.erase(repeated.begin(), repeated.end());
  AddRoom(std::move(room));
}

void Cycle::AddRoom(Reservation room) {
  const JobAccount& account = s_.accounts[room.job];
  for (const Amount& amount : account.minimum) s_.queues.Charge(account.account, amount);
  Waits(room.job, {"reserved", fmt::format("{} nodes are reserved for it from {}, when others have made room",
                                           room.nodes.size(), conf::FormatTime(room.start))});
  reservations_.Add(room);
  rooms_.push_back(std::move(room));
}

void Cycle::RefundRooms() {
  for (const Reservation& room : rooms_) {
    const JobAccount& account = s_.accounts[room.job];
    for (const Amount& amount : account.minimum) s_.queues.Refund(account.account, amount);
  }
}

const NodeSet* Cycle::KeepOffRooms(const JobEntry& entry) {
  const NodeSet* const zone = s_.ZoneKeptOff(entry);
  if (rooms_.empty()) return zone;
  kept_off_.Clear();
  if (zone != nullptr) kept_off_.AddAll(*zone);
  for (const Reservation& room : rooms_) {
    for (const NodeId node : room.nodes) kept_off_.Add(node);
  }
  return &kept_off_;
}

}  // namespace scheduler
