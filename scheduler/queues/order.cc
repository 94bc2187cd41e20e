#include "scheduler/queues/order.h"

#include <algorithm>
#include <array>
#include <bit>

namespace scheduler {
namespace {

// Between two users of one queue, the one who has used less goes first; between queues saturation decides
// long before this.
constexpr double kUserPart = 1e-3;

double Hours(conf::Duration d) {
  return conf::ToSeconds(d) / 3600;
}

double Priority(const JobEntry& entry) {
  return entry.job.priority;
}

double Age(const JobEntry& entry) {
  return -Hours(entry.job.submitted.time_since_epoch());
}

double Size(const JobEntry& entry) {
  return -static_cast<double>(entry.device_milli) / kWholeDevice;
}

double Shortest(const JobEntry& entry) {
  // A job that says nothing comes after all that say they end within a week.
  constexpr conf::Duration kUnknown = std::chrono::hours(24 * 7);
  return -Hours(entry.job.estimate.value_or(entry.job.limit.value_or(kUnknown)));
}

double FairShare(const QueueTree& tree, AccountId account, KindId kind) {
  const QueueIndex queue = tree.queue_of(account);
  const auto of_queue = static_cast<double>(tree.QueueUsage(queue));
  const double of_user = of_queue > 0 ? static_cast<double>(tree.Usage(account)) / of_queue : 0;
  return -tree.Saturation(queue, kind) - kUserPart * of_user;
}

constexpr auto kTerms = std::to_array<OrderTermInfo>({
    {"priority", "the job's priority", Priority, nullptr},
    {"fair-share", "the less its queue holds of its fair share, then the less its user has used", nullptr,
     FairShare},
    {"age", "hours since it was submitted", Age, nullptr},
    {"size", "the fewer devices it asks for (weight below 0: the more), one point each", Size, nullptr},
    {"shortest", "the shorter its estimate (weight below 0: the longer), one point an hour", Shortest,
     nullptr},
});

}  // namespace

std::span<const OrderTermInfo> OrderTerms() {
  return kTerms;
}

const OrderTermInfo* FindOrderTerm(std::string_view name) {
  const auto at = std::ranges::find(kTerms, name, &OrderTermInfo::name);
  return at == kTerms.end() ? nullptr : &*at;
}

Order::Order(std::span<const OrderTerm> terms) {
  for (const OrderTerm& term : terms) {
    const OrderTermInfo* info = FindOrderTerm(term.name);
    if (info == nullptr) continue;
    (info->of_job != nullptr ? of_job_ : of_account_).push_back({info, term.weight});
  }
}

double Order::OfJob(const JobEntry& entry) const {
  double sum = 0;
  for (const Weighted& w : of_job_) sum += w.weight * w.term->of_job(entry);
  return sum;
}

double Order::OfAccount(const QueueTree& tree, AccountId account, KindId kind) const {
  double sum = 0;
  for (const Weighted& w : of_account_) sum += w.weight * w.term->of_account(tree, account, kind);
  return sum;
}

KindId RankedBy(const JobEntry& entry, const ShapeTable& shapes) {
  for (const std::vector<ShapeId>& alternatives : entry.shapes) {
    uint64_t kinds = 0;
    for (const ShapeId id : alternatives) kinds |= shapes[id].kinds;
    if (kinds != 0) {
      return std::has_single_bit(kinds) ? static_cast<KindId>(std::countr_zero(kinds)) : kAnyKind;
    }
  }
  return kAnyKind;
}

}  // namespace scheduler
