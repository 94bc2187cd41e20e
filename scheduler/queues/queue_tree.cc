#include "scheduler/queues/queue_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "scheduler/queues/fair_share.h"

namespace scheduler {
namespace {

__extension__ using Wide = __int128;

constexpr std::string_view kEveryKind = "*";
constexpr int kStepsPerHalfLife = 32;

int64_t Seconds(conf::TimePoint t) {
  return std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
}

void Merge(std::vector<Amount>& amounts, Amount more) {
  if (more.milli == 0) return;
  const auto at = std::ranges::find(amounts, more.kind, &Amount::kind);
  if (at == amounts.end()) {
    amounts.push_back(more);
  } else {
    at->milli += more.milli;
  }
}

}  // namespace

Amount AmountOf(const Holding& holding, const TypeView& view) {
  return {view.type->kind, HeldMilli(holding, view)};
}

std::vector<Amount> DemandOf(const JobEntry& entry, const ShapeTable& shapes, Extent extent) {
  std::vector<Amount> amounts;
  for (size_t r = 0; r < entry.job.roles.size(); ++r) {
    const Role& role = entry.job.roles[r];
    if (role.ask.devices.empty()) continue;
    uint64_t kinds = 0;
    for (const ShapeId id : entry.shapes[r]) kinds |= shapes[id].kinds;
    const int64_t members = extent == Extent::kWanted ? role.count : role.min_count;
    Merge(amounts, {std::has_single_bit(kinds) ? static_cast<KindId>(std::countr_zero(kinds)) : kAnyKind,
                    members * DeviceMilli(role.ask.devices.front(), shapes.cluster())});
  }
  return amounts;
}

QueueTree::QueueTree(const Cluster& cluster, const std::vector<Queue>& queues, conf::Duration usage_half_life)
    : cluster_(&cluster), dims_(cluster.kinds.size() <= 1 ? 1 : cluster.kinds.size() + 1) {
  const std::vector<Queue> one = {{.name = "default", .parent = {}}};
  everything_in_one_ = queues.empty();
  const std::vector<Queue>& given = everything_in_one_ ? one : queues;
  const auto top = static_cast<QueueIndex>(given.size());
  queues_.resize(given.size() + 1);
  cells_.resize(queues_.size() * dims_);
  shared_.resize(dims_, false);
  shared_[0] = true;
  for (QueueIndex q = 0; q < top; ++q) by_name_.emplace(given[q].name, q);
  for (QueueIndex q = 0; q < top; ++q) ReadQuotas(q, given[q]);
  // Claims for devices that queues do not lend, from the leaves up.
  const auto claim = [&](const auto& self, QueueIndex q) -> void {
    for (const QueueIndex child : queues_[q].children) {
      self(self, child);
      for (size_t d = 0; d < dims_; ++d) at(q, d).below += at(child, d).claimed;
    }
    for (size_t d = 0; d < dims_; ++d) at(q, d).claimed = std::max(at(q, d).below, at(q, d).kept);
  };
  claim(claim, top);

  std::vector<int64_t> by_kind(cluster.kinds.size());
  for (NodeId n = 0; n < cluster.nodes.size(); ++n) {
    const NodeType& type = cluster.type_of(n);
    if (type.devices > 0) by_kind[type.kind] += type.devices * int64_t{kWholeDevice};
  }
  SetCapacity(by_kind);

  if (usage_half_life > conf::Duration::zero()) {
    const double half_life = conf::ToSeconds(usage_half_life);
    step_ = std::max<int64_t>(1, static_cast<int64_t>(half_life / kStepsPerHalfLife));
    keeps_ = static_cast<uint64_t>(std::llround(std::exp2(-static_cast<double>(step_) / half_life) * 0x1p32));
  }
}

void QueueTree::ReadQuotas(QueueIndex index, const Queue& queue) {
  Node& node = queues_[index];
  node.name = queue.name;
  node.parent = queue.parent.empty() ? root() : by_name_.at(queue.parent);
  node.weight = queue.over_quota_weight;
  node.borrows = queue.borrows || everything_in_one_;
  queues_[node.parent].children.push_back(index);

  const auto each = [&](const DeviceQuota& quota, auto set) {
    for (const auto& [name, milli] : quota) {
      const auto kind = std::ranges::find(cluster_->kinds, name, &DeviceKind::name);
      if (name != kEveryKind && kind == cluster_->kinds.end()) continue;  // FirstDefect names it
      const KindId id = name == kEveryKind ? kAnyKind : static_cast<KindId>(kind - cluster_->kinds.begin());
      set(Dim(id), milli);
    }
  };
  each(queue.deserved, [&](size_t dim, int64_t milli) {
    Cell& cell = at(index, dim);
    cell.deserved = cell.names_deserved ? std::min(cell.deserved, milli) : milli;
    cell.names_deserved = true;
    shared_[dim] = true;
  });
  if (!at(index, 0).names_deserved) {
    for (size_t d = 1; d < dims_; ++d) at(index, 0).deserved += at(index, d).deserved;
  }
  each(queue.limit,
       [&](size_t dim, int64_t milli) { at(index, dim).limit = std::min(at(index, dim).limit, milli); });
  each(queue.user_limit, [&](size_t dim, int64_t milli) {
    at(index, dim).user_limit = std::min(at(index, dim).user_limit, milli);
  });
  if (!queue.lends) return;
  each(*queue.lends, [&](size_t dim, int64_t milli) {
    Cell& cell = at(index, dim);
    cell.kept = std::max(cell.kept, cell.deserved - milli);
    lends_in_part_ = true;
  });
}

void QueueTree::SetCapacity(std::span<const int64_t> by_kind) {
  capacity_.assign(dims_, 0);
  for (size_t k = 0; k < by_kind.size(); ++k) {
    capacity_[0] += by_kind[k];
    if (dims_ > 1) capacity_[k + 1] = by_kind[k];
  }
}

QueueIndex QueueTree::Find(const std::string& name) const {
  if (everything_in_one_) return 0;
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? kNone : at->second;
}

bool QueueTree::Under(QueueIndex queue, QueueIndex ancestor) const {
  while (queue != kNone && queue != ancestor) queue = queues_[queue].parent;
  return queue == ancestor;
}

std::pair<QueueIndex, QueueIndex> QueueTree::Apart(QueueIndex a, QueueIndex b) const {
  if (Under(a, b)) return {b, b};
  if (Under(b, a)) return {a, a};
  while (!Under(b, queues_[a].parent)) a = queues_[a].parent;
  while (queues_[b].parent != queues_[a].parent) b = queues_[b].parent;
  return {a, b};
}

AccountId QueueTree::Account(QueueIndex queue, const std::string& user) {
  if (queue == root()) return kNone;
  const auto [at, is_new] = by_user_.try_emplace({queue, user}, 0);
  if (!is_new) return at->second;
  AccountId id;
  if (unused_.empty()) {
    id = static_cast<AccountId>(accounts_.size());
    accounts_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  at->second = id;
  const AccountId above = Account(queues_[queue].parent, user);
  if (above != kNone) ++accounts_[above].uses;
  accounts_[id] = {.queue = queue,
                   .parent = above,
                   .uses = 0,
                   .user = user,
                   .allocated = std::vector<int64_t>(dims_),
                   .usage = 0,
                   .settled_at = now_};
  return id;
}

void QueueTree::Release(AccountId id) {
  UserAccount& account = accounts_[id];
  const AccountId above = account.parent;
  by_user_.erase({account.queue, account.user});
  account = {};
  unused_.push_back(id);
  if (above != kNone && --accounts_[above].uses == 0) Release(above);
}

void QueueTree::AdvanceTo(conf::TimePoint now) {
  assert(Seconds(now) >= now_);
  now_ = Seconds(now);
}

int64_t QueueTree::Settled(const UserAccount& account) const {
  if (step_ == 0) return 0;
  const int64_t rate = account.allocated[0];
  int64_t usage = account.usage;
  int64_t t = account.settled_at;
  while (t < now_) {
    const int64_t next = (t / step_ + 1) * step_;
    if (next > now_) return usage + rate * (now_ - t);
    const int64_t before = usage;
    const bool whole_step = next - t == step_;
    usage = static_cast<int64_t>(Wide{usage + rate * (next - t)} * static_cast<int64_t>(keeps_) >> 32);
    t = next;
    // The usage is stable: each step adds as much as decays.
    if (whole_step && usage == before) t += (now_ - t) / step_ * step_;
  }
  return usage;
}

void QueueTree::Allocate(AccountId account, KindId kind, int64_t milli) {
  UserAccount& own = accounts_[account];
  own.usage = Settled(own);
  own.settled_at = now_;
  AllocateIn(account, 0, milli);
  if (Dim(kind) != 0) AllocateIn(account, Dim(kind), milli);
}

void QueueTree::AllocateIn(AccountId account, size_t dim, int64_t milli) {
  int64_t claims = milli;
  for (AccountId a = account; a != kNone; a = accounts_[a].parent) {
    accounts_[a].allocated[dim] += milli;
    Cell& cell = at(accounts_[a].queue, dim);
    cell.allocated += milli;
    cell.below += claims;
    const int64_t claimed = std::max(cell.below, cell.kept);
    claims = claimed - cell.claimed;
    cell.claimed = claimed;
    assert(cell.allocated >= 0);
  }
  Cell& top = at(root(), dim);
  top.allocated += milli;
  top.below += claims;
  top.claimed += claims;
}

void QueueTree::Request(AccountId account, std::span<const Amount> wanted) {
  ++accounts_[account].uses;
  RequestIn(accounts_[account].queue, wanted, 1);
}

void QueueTree::Withdraw(AccountId account, std::span<const Amount> wanted) {
  assert(accounts_[account].uses > 0);
  --accounts_[account].uses;
  RequestIn(accounts_[account].queue, wanted, -1);
}

void QueueTree::RequestIn(QueueIndex leaf, std::span<const Amount> wanted, int sign) {
  for (const Amount& amount : wanted) {
    const size_t dim = Dim(amount.kind);
    for (QueueIndex q = leaf; q != kNone; q = queues_[q].parent) {
      at(q, 0).requested += sign * amount.milli;
      if (dim != 0) at(q, dim).requested += sign * amount.milli;
    }
  }
}

int64_t QueueTree::MostUnborrowed(QueueIndex queue, size_t dim) const {
  const Cell& cell = at(queue, dim);
  return dim == 0 || cell.names_deserved || !at(queue, 0).names_deserved ? cell.deserved : INT64_MAX;
}

QuotaVerdict QueueTree::Admit(AccountId account, std::span<const Amount> more) const {
  int64_t total = 0;
  for (const Amount& amount : more) total += amount.milli;
  if (total == 0) return {};
  QuotaVerdict verdict = AdmitIn(account, 0, total);
  for (const Amount& amount : more) {
    if (!verdict.admitted()) break;
    if (Dim(amount.kind) != 0) verdict = AdmitIn(account, Dim(amount.kind), amount.milli);
  }
  return verdict;
}

QuotaVerdict QueueTree::AdmitIn(AccountId account, size_t dim, int64_t milli) const {
  using Bound = QuotaVerdict::Bound;
  int64_t claims = milli;
  const auto refuse = [&](Bound bound, AccountId a, QueueIndex q, int64_t has, int64_t most) {
    return QuotaVerdict{bound, q, a, KindOf(dim), has, milli, most};
  };
  for (AccountId a = account; a != kNone; a = accounts_[a].parent) {
    const QueueIndex q = accounts_[a].queue;
    const Cell& cell = at(q, dim);
    const int64_t of_user = accounts_[a].allocated[dim];
    if (of_user + milli > cell.user_limit) return refuse(Bound::kUserLimit, a, q, of_user, cell.user_limit);
    if (cell.allocated + milli > cell.limit) return refuse(Bound::kLimit, a, q, cell.allocated, cell.limit);
    if (!queues_[q].borrows && cell.allocated + milli > MostUnborrowed(q, dim)) {
      return refuse(Bound::kDeserved, a, q, cell.allocated, MostUnborrowed(q, dim));
    }
    const int64_t claimed = std::max(cell.below + claims, cell.kept);
    claims = claimed - cell.claimed;
    if (claims > 0 && claimed > cell.limit) return refuse(Bound::kLent, a, q, cell.claimed, cell.limit);
  }
  const Cell& top = at(root(), dim);
  if (lends_in_part_ && claims > 0 && top.claimed + claims > capacity_[dim]) {
    return refuse(Bound::kLent, account, root(), top.claimed, capacity_[dim]);
  }
  return {};
}

void QueueTree::ComputeShares() {
  SumUsage();
  for (size_t dim = 0; dim < dims_; ++dim) {
    if (!shared_[dim]) continue;
    Want(root(), dim);
    at(root(), dim).share = capacity_[dim];
    Divide(root(), dim, capacity_[dim]);
  }
}

void QueueTree::SumUsage() {
  for (Node& queue : queues_) queue.usage = 0;
  for (AccountId id = 0; id < accounts_.size(); ++id) {
    UserAccount& account = accounts_[id];
    if (account.queue == kNone || !is_leaf(account.queue)) continue;
    account.usage = Settled(account);
    account.settled_at = now_;
    for (QueueIndex q = account.queue; q != kNone; q = queues_[q].parent) queues_[q].usage += account.usage;
    if (account.uses == 0 && account.usage == 0) Release(id);
  }
}

int64_t QueueTree::Want(QueueIndex queue, size_t dim) {
  Cell& cell = at(queue, dim);
  cell.wanted = is_leaf(queue) ? std::max(cell.requested, cell.allocated) : 0;
  for (const QueueIndex child : queues_[queue].children) cell.wanted += Want(child, dim);
  cell.wanted = std::min(cell.wanted, cell.limit);
  if (!queues_[queue].borrows) cell.wanted = std::min(cell.wanted, MostUnborrowed(queue, dim));
  return cell.wanted;
}

void QueueTree::Divide(QueueIndex queue, size_t dim, int64_t total) {
  const std::vector<QueueIndex>& children = queues_[queue].children;
  std::vector<FairShareClaim> claims;
  claims.reserve(children.size());
  for (const QueueIndex child : children) {
    const Cell& cell = at(child, dim);
    claims.push_back({.deserved = cell.deserved,
                      .wanted = cell.wanted,
                      .kept = cell.kept,
                      .weight = queues_[child].weight,
                      .usage = queues_[child].usage});
  }
  DivideFairly(claims, total);
  for (size_t i = 0; i < children.size(); ++i) at(children[i], dim).share = claims[i].share;
  for (const QueueIndex child : children) Divide(child, dim, at(child, dim).share);
}

std::string QueueTree::Explain(const QuotaVerdict& verdict) const {
  const std::string kind =
      verdict.kind == kAnyKind ? "devices" : fmt::format("{} devices", cluster_->kinds[verdict.kind].name);
  const auto devices = [](int64_t milli) { return fmt::format("{:g}", static_cast<double>(milli) / 1000); };
  const std::string has = devices(verdict.has);
  const std::string asked = devices(verdict.asked);
  const std::string most = devices(verdict.most);
  switch (verdict.bound) {
    case QuotaVerdict::Bound::kNone:
      return "admitted";
    case QuotaVerdict::Bound::kLimit:
      return fmt::format("queue \"{}\" has {} of its limit of {} {}; {} more would exceed it",
                         name(verdict.queue), has, most, kind, asked);
    case QuotaVerdict::Bound::kUserLimit:
      return fmt::format(
          "user \"{}\" has {} of the {} {} that each user of queue \"{}\" may have; {} more "
          "would exceed it",
          accounts_[verdict.account].user, has, most, kind, name(verdict.queue), asked);
    case QuotaVerdict::Bound::kDeserved:
      return fmt::format(
          "queue \"{}\" does not borrow and has {} of the {} {} that it deserves; {} more would "
          "exceed it",
          name(verdict.queue), has, most, kind, asked);
    case QuotaVerdict::Bound::kLent:
      return fmt::format(
          "of {} {} {} {} are in use or kept by queues that do not lend them; {} more would take "
          "those",
          most, kind, verdict.queue == root() ? "in the cluster" : "of queue \"" + name(verdict.queue) + "\"",
          has, asked);
  }
  return {};
}

double QueueTree::Saturation(QueueIndex queue, KindId kind) const {
  const size_t dim = Dim(SharedBy(kind));
  double highest = 0;
  for (QueueIndex q = queue; q != root(); q = queues_[q].parent) {
    const Cell& cell = at(q, dim);
    const double saturation =
        cell.share > 0 ? static_cast<double>(cell.allocated) / static_cast<double>(cell.share) : kSaturated;
    highest = std::max(highest, saturation);
  }
  return std::min(highest, kSaturated);
}

int64_t QueueTree::Usage(AccountId account) const {
  return Settled(accounts_[account]);
}

QueueTree::UsageTable QueueTree::ExportUsage() const {
  UsageTable table;
  for (const UserAccount& account : accounts_) {
    if (account.queue == kNone || !is_leaf(account.queue)) continue;
    const int64_t usage = Settled(account);
    if (usage > 0) table[{name(account.queue), account.user}] = static_cast<double>(usage);
  }
  return table;
}

void QueueTree::RestoreUsage(const UsageTable& usage, conf::TimePoint as_of) {
  AdvanceTo(as_of);
  for (const auto& [who, amount] : usage) {
    const QueueIndex queue = Find(who.first);
    if (queue == kNone || !is_leaf(queue)) continue;
    UserAccount& account = accounts_[Account(queue, who.second)];
    account.usage = std::llround(amount);
    account.settled_at = now_;
  }
}

std::string QueueTree::Check() const {
  std::vector<int64_t> allocated(cells_.size());
  for (AccountId id = 0; id < accounts_.size(); ++id) {
    const UserAccount& account = accounts_[id];
    if (account.queue == kNone || !is_leaf(account.queue)) continue;
    for (size_t d = 0; d < dims_; ++d) {
      for (QueueIndex q = account.queue; q != kNone; q = queues_[q].parent) {
        allocated[q * dims_ + d] += account.allocated[d];
      }
    }
  }
  for (QueueIndex q = 0; q < queues_.size(); ++q) {
    for (size_t d = 0; d < dims_; ++d) {
      const Cell& cell = at(q, d);
      int64_t below = is_leaf(q) ? cell.allocated : 0;
      for (const QueueIndex child : queues_[q].children) below += at(child, d).claimed;
      if (allocated[q * dims_ + d] != cell.allocated || cell.below != below ||
          cell.claimed != std::max(below, cell.kept)) {
        return fmt::format("queue {}: its sums are wrong", name(q));
      }
    }
  }
  return {};
}

}  // namespace scheduler
