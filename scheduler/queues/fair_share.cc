// Fair shares of a queue tree (queue_tree.h has the scheme).
#include <algorithm>
#include <numeric>

#include "scheduler/queues/queue_tree.h"

namespace scheduler {
namespace {

__extension__ using Wide = __int128;

}  // namespace

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
  int64_t deserved = 0;
  for (const QueueIndex child : children) {
    Cell& cell = at(child, dim);
    cell.share = std::min(cell.deserved, cell.wanted);
    deserved += cell.share;
  }
  if (deserved > total) {  // more was promised than is there: all give way alike
    int64_t rest = total;
    for (const QueueIndex child : children) {
      int64_t& share = at(child, dim).share;
      share = static_cast<int64_t>(Wide{share} * total / deserved);
      rest -= share;
    }
    for (const QueueIndex child : children) {
      Cell& cell = at(child, dim);
      if (rest == 0) break;
      if (cell.share >= std::min(cell.deserved, cell.wanted)) continue;
      ++cell.share;
      --rest;
    }
  } else {
    int64_t rest = total;
    for (const QueueIndex child : children) rest -= std::max(at(child, dim).share, at(child, dim).kept);
    DivideRest(children, dim, rest);
  }
  for (const QueueIndex child : children) Divide(child, dim, at(child, dim).share);
}

void QueueTree::DivideRest(std::span<const QueueIndex> children, size_t dim, int64_t rest) {
  const auto has_enough = [&](QueueIndex q) { return at(q, dim).share >= at(q, dim).wanted; };
  std::vector<QueueIndex> asking;
  for (const QueueIndex q : children) {
    if (!has_enough(q) && queues_[q].weight > 0) asking.push_back(q);
  }
  std::vector<double> corrected;
  while (rest > 0 && !asking.empty()) {
    double weights = 0;
    double usage = 0;
    for (const QueueIndex q : asking) {
      weights += queues_[q].weight;
      usage += static_cast<double>(queues_[q].usage);
    }
    corrected.clear();
    for (const QueueIndex q : asking) {
      const double weight = queues_[q].weight / weights;
      const double used = usage > 0 ? static_cast<double>(queues_[q].usage) / usage : weight;
      corrected.push_back(std::max(0.0, weight + (weight - used)));
    }
    const double sum = std::accumulate(corrected.begin(), corrected.end(), 0.0);
    int64_t given = 0;
    for (size_t i = 0; i < asking.size(); ++i) {
      Cell& cell = at(asking[i], dim);
      const auto part = static_cast<int64_t>(static_cast<double>(rest) * (corrected[i] / sum));
      const int64_t take = std::min({part, cell.wanted - cell.share, rest - given});
      cell.share += take;
      given += take;
    }
    rest -= given;
    if (std::erase_if(asking, has_enough) > 0) continue;
    for (size_t i = 0; i < asking.size() && rest > 0; ++i) {  // what rounding left
      if (corrected[i] == 0) continue;
      ++at(asking[i], dim).share;
      --rest;
    }
    break;
  }
}

}  // namespace scheduler
