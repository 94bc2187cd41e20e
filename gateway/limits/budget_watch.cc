#include "gateway/limits/budget_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/audit/stored_events.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

namespace limits = router::limits;

constexpr conf::Duration kLookEvery = std::chrono::seconds(5);
constexpr conf::Duration kSampleEvery = std::chrono::minutes(1);
constexpr conf::Duration kWindow = std::chrono::hours(1);
constexpr conf::Duration kShortest = std::chrono::minutes(5);  // a rate needs samples over at least this time
constexpr conf::Duration kRemoveEvery = std::chrono::hours(1);
constexpr conf::Duration kKept = std::chrono::days(62);  // longer than any period
constexpr size_t kRemovedAtOnce = 100;

std::string IdOf(const limits::LimitState& budget) {
  return fmt::format("{}|{}|{}|{}", budget.scope, budget.name, budget.model, budget.device);
}

double Hours(conf::Duration duration) {
  return std::chrono::duration<double, std::ratio<3600>>(duration).count();
}

ledger::Event EventOf(const limits::LimitState& budget, uint32_t percent) {
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "budget.threshold";
  event.actor = "control";
  event.subject = IdOf(budget);
  event.tenant = budget.scope;
  event.detail = nlohmann::ordered_json{{"percent", percent},
                                        {"used", budget.used},
                                        {"capacity", budget.capacity},
                                        {"period_start", conf::FormatTime(budget.period->start)},
                                        {"period_end", conf::FormatTime(budget.period->end)}}
                     .dump();
  return event;
}

}  // namespace

BudgetWatch::BudgetWatch(net::Loop& loop, store::Store& store, const limits::LimitTree& limits,
                         std::function<std::vector<uint32_t>()> thresholds, OnThreshold on_threshold)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      limits_(limits),
      thresholds_(std::move(thresholds)),
      on_threshold_(std::move(on_threshold)) {}

void BudgetWatch::Start() {
  removed_at_ = net::Now();
  SetAfter(kLookEvery);
}

void BudgetWatch::Stop() {
  stopped_ = true;
  Clear();
}

void BudgetWatch::OnAlarm() {
  const conf::TimePoint now = net::Now();
  const std::vector<uint32_t> thresholds = thresholds_();
  absl::flat_hash_map<std::string, Seen> before = std::exchange(seen_, {});
  for (const limits::LimitState& budget : limits_.Snapshot(now)) {
    if (!budget.period) continue;
    const std::string id = IdOf(budget);
    if (const auto known = before.find(id); known != before.end()) seen_[id] = std::move(known->second);
    CheckBudget(budget, thresholds, now);
  }
  if (now - removed_at_ >= kRemoveEvery) {
    removed_at_ = now;
    loop_.tasks.Spawn(RemoveOld());
  }
  SetAfter(kLookEvery);
}

void BudgetWatch::CheckBudget(const limits::LimitState& budget, const std::vector<uint32_t>& thresholds,
                              conf::TimePoint now) {
  Seen& seen = seen_[IdOf(budget)];
  if (seen.period != budget.period->start)
    seen = {.period = budget.period->start, .samples = {}, .reported = 0};
  if (seen.samples.empty() || now - seen.samples.back().at >= kSampleEvery) {
    seen.samples.push_back({now, budget.used});
    while (now - seen.samples.front().at > kWindow) seen.samples.pop_front();
  }
  if (budget.capacity <= 0) return;
  // Running requests may give a part of their reservations back.
  const double used = 100.0 * static_cast<double>(budget.used - budget.reserved);
  uint32_t reached = 0;
  for (const uint32_t percent : thresholds) {
    if (used >= static_cast<double>(percent) * static_cast<double>(budget.capacity))
      reached = std::max(reached, percent);
  }
  if (reached <= seen.reported) return;
  for (const uint32_t percent : thresholds) {
    if (percent > seen.reported && percent <= reached) loop_.tasks.Spawn(Notify(budget, percent));
  }
  seen.reported = reached;
}

net::Task<void> BudgetWatch::Notify(limits::LimitState budget, uint32_t percent) {
  const std::string id =
      fmt::format("{}|{}|{}", IdOf(budget), conf::ToUnixMicros(budget.period->start) / 1'000'000, percent);
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Create(store::kThreshold, id,
                                        nlohmann::json{{"at", conf::ToUnixMicros(net::Now())}}.dump()));
  writes.push_back(StoredEvent(EventOf(budget, percent)));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (committed.ok()) {
    if (!stopped_) on_threshold_(budget, percent);
  } else if (!absl::IsAborted(committed.status())) {  // aborted: the notice was sent before
    log::Warn("the notice of a budget's threshold could not be sent; it will be tried again",
              {{"budget", IdOf(budget)}, {"why", conf::Std(committed.status().message())}});
    if (const auto seen = seen_.find(IdOf(budget)); seen != seen_.end())
      seen->second.reported = std::min(seen->second.reported, percent - 1);
  }
}

// Removes the notices of past periods.
net::Task<void> BudgetWatch::RemoveOld() {
  const absl::StatusOr<store::Listing> all = co_await store_.List(store::kThreshold);
  if (!all.ok() || stopped_) co_return;
  const int64_t before = conf::ToUnixMicros(net::Now() - kKept);
  std::vector<store::Write> writes;
  for (const store::Object& object : all->objects) {
    const nlohmann::json body = conf::ParseJson(object.body);
    const bool old = !body.is_object() || body.value("at", int64_t{0}) < before;
    if (old && writes.size() < kRemovedAtOnce) writes.push_back(store::Write::Remove(object));
  }
  if (!writes.empty()) (co_await store_.Commit(std::move(writes))).status().IgnoreError();
}

std::optional<BurnRate> BudgetWatch::RateOf(const limits::LimitState& budget, conf::TimePoint now) const {
  if (!budget.period) return std::nullopt;
  BurnRate rate;
  const auto seen = seen_.find(IdOf(budget));
  const bool sampled = seen != seen_.end() && seen->second.period == budget.period->start &&
                       !seen->second.samples.empty() && now - seen->second.samples.front().at >= kShortest;
  const Sample from = sampled ? seen->second.samples.front() : Sample{budget.period->start, 0};
  if (now > from.at) rate.per_hour = static_cast<double>(budget.used - from.used) / Hours(now - from.at);
  rate.per_hour = std::max(rate.per_hour, 0.0);
  const int64_t left = std::max<int64_t>(budget.capacity - budget.used, 0);
  if (rate.per_hour <= 0) return rate;
  const double hours_left = static_cast<double>(left) / rate.per_hour;
  if (hours_left < Hours(budget.period->end - now)) {
    rate.used_up = now + std::chrono::duration_cast<conf::Duration>(
                             std::chrono::duration<double, std::ratio<3600>>(hours_left));
  }
  return rate;
}

std::string ThresholdNotice(const router::limits::LimitState& budget, uint32_t percent) {
  return nlohmann::ordered_json{{"tenant", budget.scope},     {"limit", budget.name}, {"model", budget.model},
                                {"device", budget.device},    {"percent", percent},   {"used", budget.used},
                                {"capacity", budget.capacity}}
      .dump();
}

}  // namespace gateway
