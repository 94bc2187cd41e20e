#include "scheduler/queues/empty_queues.h"

#include <fmt/format.h>

namespace scheduler {
namespace {

std::string Devices(int64_t milli) {
  return fmt::format("{:g}", static_cast<double>(milli) / kWholeDevice);
}

}  // namespace

EmptyQueues::EmptyQueues(const Cluster& cluster, const std::vector<Queue>& queues)
    : cluster_(cluster), shapes_(cluster), table_(shapes_), tree_(cluster, queues, std::chrono::hours(1)) {}

std::string EmptyQueues::WhyRefused(const Job& job) {
  const QueueIndex queue = tree_.Find(job.queue);
  if (queue == kNone || !tree_.is_leaf(queue)) return {};
  const JobIndex index = table_.Add(job, 0);
  const std::vector<Amount> least = DemandOf(table_[index], shapes_, Extent::kMinimum);
  table_.Erase(index);
  const QuotaVerdict verdict = tree_.Admit(tree_.Account(queue, job.user), least);
  return verdict.admitted() ? std::string() : InWords(verdict);
}

std::string EmptyQueues::InWords(const QuotaVerdict& verdict) const {
  const std::string kind = verdict.kind == kAnyKind ? "devices" : cluster_.kinds[verdict.kind].name;
  const std::string most = Devices(verdict.most);
  const std::string takes = fmt::format("and this job takes {}", Devices(verdict.asked));
  const std::string queue = verdict.queue == tree_.root() ? "cluster" : "queue " + tree_.name(verdict.queue);
  switch (verdict.bound) {
    case QuotaVerdict::Bound::kNone:
      break;
    case QuotaVerdict::Bound::kLimit:
      return fmt::format("the {} may have at most {} {}, {}", queue, most, kind, takes);
    case QuotaVerdict::Bound::kUserLimit:
      return fmt::format("the {} gives each user at most {} {}, {}", queue, most, kind, takes);
    case QuotaVerdict::Bound::kDeserved:
      return fmt::format("the {} does not borrow and deserves {} {}, {}", queue, most, kind, takes);
    case QuotaVerdict::Bound::kLent:
      return fmt::format("the {} keeps {} of {} {} for queues that do not lend them, {}", queue,
                         Devices(verdict.has), most, kind, takes);
  }
  return {};
}

}  // namespace scheduler
