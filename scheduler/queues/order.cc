#include "scheduler/queues/order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace scheduler {
namespace {

// Between two users of one queue, the one with less usage goes first; between queues saturation decides long before
// this.
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
  // A job without an estimate comes after all jobs that state to end within a week.
  constexpr conf::Duration kUnknown = std::chrono::hours(24 * 7);
  return -Hours(entry.job.estimate.value_or(entry.job.limit.value_or(kUnknown)));
}

double FairShare(const QueueTree& tree, AccountId account, KindId kind) {
  const QueueIndex queue = tree.queue_of(account);
  const auto of_queue = static_cast<double>(tree.QueueUsage(queue));
  const double of_user = of_queue > 0 ? static_cast<double>(tree.Usage(account)) / of_queue : 0;
  return -tree.Saturation(queue, kind) - kUserPart * of_user;
}

double Expected(double hours) {
  return -hours;
}

double Overdue(double hours) {
  constexpr double kDue = 14 * 24;
  return std::max(0.0, hours - kDue);
}

constexpr auto kTerms = std::to_array<OrderTermInfo>({
    {"priority", "the job's priority", Priority, nullptr, nullptr, nullptr},
    {"fair-share", "the less its queue holds of its fair share, then the less its user has used", nullptr,
     FairShare, nullptr, nullptr},
    {"age", "hours since it was submitted", Age, nullptr, nullptr, nullptr},
    {"size", "the fewer devices it asks for (weight below 0: the more), one point each", Size, nullptr,
     nullptr, nullptr},
    {"shortest", "the shorter its estimate (weight below 0: the longer), one point an hour", Shortest,
     nullptr, nullptr, nullptr},
    {"expected", "the shorter its run as learned from earlier jobs, one point an hour, at most a week",
     nullptr, nullptr, Expected, nullptr},
    {"overdue", "hours that it has waited beyond two weeks", nullptr, nullptr, nullptr, Overdue},
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
    const Weighted weighted{info, term.weight};
    all_.push_back(weighted);
    if (info->of_job != nullptr) of_job_.push_back(weighted);
    if (info->of_account != nullptr) of_account_.push_back(weighted);
    if (info->of_run != nullptr) of_run_.push_back(weighted);
    if (info->of_wait != nullptr) of_wait_.push_back(weighted);
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

double Order::OfRun(double hours) const {
  double sum = 0;
  for (const Weighted& w : of_run_) sum += w.weight * w.term->of_run(hours);
  return sum;
}

double Order::OfWait(const JobEntry& entry, conf::TimePoint now) const {
  double sum = 0;
  for (const Weighted& w : of_wait_) sum += w.weight * w.term->of_wait(Hours(now - entry.job.submitted));
  return sum;
}

std::vector<OrderPart> Order::PartsOf(const JobEntry& entry, const QueueTree& tree, AccountId account,
                                      KindId kind, double expected_hours, conf::TimePoint now) const {
  std::vector<OrderPart> parts;
  parts.reserve(all_.size());
  for (const Weighted& w : all_) {
    OrderPart part{.name = std::string(w.term->name), .weight = w.weight};
    if (w.term->of_job == Age) {
      part.value = Hours(now - entry.job.submitted);
    } else if (w.term->of_job != nullptr) {
      part.value = w.term->of_job(entry);
    } else if (w.term->of_account != nullptr) {
      part.value = w.term->of_account(tree, account, kind);
    } else if (w.term->of_run != nullptr) {
      part.value = w.term->of_run(expected_hours);
    } else {
      part.value = w.term->of_wait(Hours(now - entry.job.submitted));
    }
    parts.push_back(std::move(part));
  }
  return parts;
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
