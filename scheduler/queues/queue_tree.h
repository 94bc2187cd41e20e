// Queue tree: allocation, demand, quota and decayed usage of each queue.
//
// Devices are counted in milli, per kind and for all kinds together ("*"); on a cluster of one kind the two
// are the same. A change goes up the tree at once (Charge, Request), so that the time of an answer (Admit) depends on
// the depth alone; a trial takes back a charge by the inverse call. Fair shares (fair_share.h) are computed once a
// cycle, level by level.
//
// Usage halves every half-life, in up to 32 steps, and is kept in whole device-milli-seconds: settling it at
// any time in between changes nothing, so a tree restored from a snapshot continues identically.
//
// Queues are numbered as they were given; the root, which has no name, comes after them. The cluster must
// outlive the tree. One thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "scheduler/model.h"
#include "scheduler/queue.h"
#include "scheduler/state/job_table.h"

namespace scheduler {

using QueueIndex = uint32_t;
using AccountId = uint32_t;  // a user in a leaf queue

inline constexpr KindId kAnyKind = UINT16_MAX;

struct Amount {
  KindId kind = kAnyKind;  // kAnyKind: counts only towards all kinds together
  int64_t milli = 0;

  friend bool operator==(const Amount&, const Amount&) = default;
};

// The devices of a member, or the request of a job with all or with the fewest of its members; each
// kind once. An ask that several kinds can serve is of kAnyKind.
Amount AmountOf(const Holding& holding, const TypeView& view);
enum class Extent : uint8_t { kWanted, kMinimum };
std::vector<Amount> DemandOf(const JobEntry& entry, const ShapeTable& shapes, Extent extent);

// Whether a queue may have more, and if not, which queue refuses by which bound.
struct QuotaVerdict {
  enum class Bound : uint8_t {
    kNone,       // admitted
    kLimit,      // the queue's limit
    kUserLimit,  // the queue's limit for each of its users
    kDeserved,   // the queue does not borrow
    kLent,       // the rest is kept for queues that lend only a part
  };
  Bound bound = Bound::kNone;
  QueueIndex queue = 0;
  AccountId account = 0;
  KindId kind = kAnyKind;
  int64_t has = 0;    // milli
  int64_t asked = 0;  // more
  int64_t most = 0;

  bool admitted() const { return bound == Bound::kNone; }
};

// The devices of a kind that a queue holds, and those that it deserves.
struct Standing {
  int64_t allocated = 0;
  int64_t deserved = 0;
};

class QueueTree {
 public:
  // The queues must have no defect (queue_defects.h). Without queues, one queue, "default", has everything, whatever
  // name a job gives.
  QueueTree(const Cluster& cluster, const std::vector<Queue>& queues, conf::Duration usage_half_life);

  uint32_t size() const { return static_cast<uint32_t>(queues_.size()) - 1; }  // without the root
  QueueIndex root() const { return size(); }
  QueueIndex Find(const std::string& name) const;  // kNone: there is no such queue
  const std::string& name(QueueIndex queue) const { return queues_[queue].name; }
  QueueIndex parent(QueueIndex queue) const { return queues_[queue].parent; }  // kNone: the root's
  bool is_leaf(QueueIndex queue) const { return queues_[queue].children.empty(); }
  // The children of the lowest queue that holds both, one above each; equal when one holds the other.
  std::pair<QueueIndex, QueueIndex> Apart(QueueIndex a, QueueIndex b) const;
  bool Under(QueueIndex queue, QueueIndex ancestor) const;

  // Where a user's jobs in a leaf queue are accounted; good while the user has a job there (Request).
  AccountId Account(QueueIndex leaf, const std::string& user);
  QueueIndex queue_of(AccountId account) const { return accounts_[account].queue; }

  // Advances the time; usage accrues from the allocation. Times must not go back.
  void AdvanceTo(conf::TimePoint now);

  // Counts a job's whole request, pending or running, until it is withdrawn.
  void Request(AccountId account, std::span<const Amount> wanted);
  void Withdraw(AccountId account, std::span<const Amount> wanted);
  void Charge(AccountId account, Amount held) { Allocate(account, held.kind, held.milli); }
  void Refund(AccountId account, Amount held) { Allocate(account, held.kind, -held.milli); }

  // Whether the account may be charged all of these (each kind once). Where a job may run on several kinds,
  // ask again with what its placement holds.
  QuotaVerdict Admit(AccountId account, std::span<const Amount> more) const;
  std::string Explain(const QuotaVerdict& verdict) const;

  // Healthy devices, in milli, by kind. At first those of the cluster's nodes.
  void SetCapacity(std::span<const int64_t> by_kind);

  // Computes the fair shares under the present requests and usage; forgets accounts without jobs and usage.
  void ComputeShares();

  int64_t allocated(QueueIndex queue, KindId kind) const { return cell(queue, kind).allocated; }
  int64_t requested(QueueIndex queue, KindId kind) const { return cell(queue, kind).requested; }
  int64_t share(QueueIndex queue, KindId kind) const { return cell(queue, SharedBy(kind)).share; }
  // The kind by which a queue's right to `kind` is counted: `kind` itself where the queue deserves it by
  // name, else all kinds together where it deserves those.
  KindId CountedBy(QueueIndex queue, KindId kind) const {
    return cell(queue, kind).names_deserved || !at(queue, 0).names_deserved ? kind : kAnyKind;
  }
  Standing standing(QueueIndex queue, KindId counted_by) const {
    return {cell(queue, counted_by).allocated, cell(queue, counted_by).deserved};
  }
  // Allocated over fair share, at most kSaturated; of the queue and those above it, the highest.
  double Saturation(QueueIndex queue, KindId kind) const;
  static constexpr double kSaturated = 100;
  // The kind by which work of `kind` is shared: itself where a queue deserves it by name, else all together.
  KindId SharedBy(KindId kind) const { return kind != kAnyKind && shared_[Dim(kind)] ? kind : kAnyKind; }

  // Decayed, in device-milli-seconds, now.
  int64_t Usage(AccountId account) const;
  int64_t QueueUsage(QueueIndex queue) const { return queues_[queue].usage; }  // as of ComputeShares

  using UsageTable = std::map<std::pair<std::string, std::string>, double>;  // (queue, user), as Snapshot's
  UsageTable ExportUsage() const;
  // Call it before anything is charged. Queues that no longer exist are left out.
  void RestoreUsage(const UsageTable& usage, conf::TimePoint as_of);

  // Recounts the tree from its leaves, and returns the first difference; empty: none. For tests and debug builds.
  std::string Check() const;

 private:
  // One queue's numbers of one kind, or of all kinds together.
  struct Cell {
    int64_t allocated = 0;
    int64_t requested = 0;
    int64_t below = 0;    // of a leaf: allocated; else its children's claims
    int64_t claimed = 0;  // max(below, kept)
    int64_t deserved = 0;
    int64_t limit = INT64_MAX;
    int64_t user_limit = INT64_MAX;
    int64_t kept = 0;  // of deserved, what it does not lend
    int64_t wanted = 0;
    int64_t share = 0;
    bool names_deserved = false;
  };
  struct Node {
    std::string name;
    QueueIndex parent = kNone;
    std::vector<QueueIndex> children;
    double weight = 1;
    bool borrows = true;
    int64_t usage = 0;
  };
  struct UserAccount {
    QueueIndex queue = kNone;  // kNone: not in use
    AccountId parent = kNone;  // the user's in the queue above
    uint32_t uses = 0;         // jobs, and accounts below
    std::string user;
    std::vector<int64_t> allocated;  // by dimension
    int64_t usage = 0;
    int64_t settled_at = 0;  // seconds
  };

  // Dimension 0: all kinds together.
  size_t Dim(KindId kind) const { return kind == kAnyKind || dims_ == 1 ? 0 : kind + size_t{1}; }
  KindId KindOf(size_t dim) const { return dim == 0 ? kAnyKind : static_cast<KindId>(dim - 1); }
  Cell& at(QueueIndex queue, size_t dim) { return cells_[queue * dims_ + dim]; }
  const Cell& at(QueueIndex queue, size_t dim) const { return cells_[queue * dims_ + dim]; }
  const Cell& cell(QueueIndex queue, KindId kind) const { return at(queue, Dim(kind)); }

  void ReadQuotas(QueueIndex index, const Queue& queue);
  void Allocate(AccountId account, KindId kind, int64_t milli);
  void AllocateIn(AccountId account, size_t dim, int64_t milli);
  void RequestIn(QueueIndex leaf, std::span<const Amount> wanted, int sign);
  int64_t MostUnborrowed(QueueIndex queue, size_t dim) const;
  QuotaVerdict AdmitIn(AccountId account, size_t dim, int64_t milli) const;
  void Release(AccountId account);
  int64_t Settled(const UserAccount& account) const;
  void SumUsage();
  int64_t Want(QueueIndex queue, size_t dim);
  void Divide(QueueIndex queue, size_t dim, int64_t total);

  const Cluster* cluster_;
  size_t dims_ = 1;
  bool everything_in_one_ = false;
  bool lends_in_part_ = false;
  std::vector<Node> queues_;
  std::vector<Cell> cells_;
  std::vector<bool> shared_;  // by dimension
  std::vector<int64_t> capacity_;
  absl::flat_hash_map<std::string, QueueIndex> by_name_;

  std::vector<UserAccount> accounts_;
  std::vector<AccountId> unused_;
  absl::flat_hash_map<std::pair<QueueIndex, std::string>, AccountId> by_user_;
  int64_t now_ = 0;     // seconds
  int64_t step_ = 0;    // seconds between two decays; 0: nothing is remembered
  uint64_t keeps_ = 0;  // what a decay leaves, of 2^32
};

}  // namespace scheduler
