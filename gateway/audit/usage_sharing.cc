#include "gateway/audit/usage_sharing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "conf/text.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/tail.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

constexpr size_t kObjectsAtOnce = 64;  // in one page, or in one transaction
// Changes of other kinds, after which the file of the copy says how far it goes.
constexpr uint64_t kNoteAfter = 10'000;
constexpr conf::Duration kRemoveInterval = std::chrono::hours(1);
// A gateway that has told nothing for so long is no longer expected to remove what is outdated.
constexpr conf::Duration kSilent = std::chrono::hours(24);

int64_t HourOf(conf::TimePoint at) {
  return conf::ToUnixMicros(at) / (ledger::kHour * ledger::kSecondUs);
}

// The hours whose sums have changed after that record; all that have feedback where an earlier version has told none.
absl::StatusOr<std::vector<int64_t>> ChangedHours(ledger::Index& index, uint64_t after, bool feedback_told) {
  const absl::StatusOr<std::vector<int64_t>> usage = index.HoursChangedAfter(after);
  if (!usage.ok()) return usage.status();
  std::set<int64_t> hours(usage->begin(), usage->end());
  absl::StatusOr<std::vector<int64_t>> feedback = index.feedback().HoursChangedAfter(after);
  if (!feedback.ok()) return feedback.status();
  hours.insert(feedback->begin(), feedback->end());
  if (after == 0 || !feedback_told) {
    feedback = index.feedback().Hours();
    if (!feedback.ok()) return feedback.status();
    hours.insert(feedback->begin(), feedback->end());
  }
  return std::vector<int64_t>(hours.begin(), hours.end());
}

// The first hour that has sums; none if no hour has.
absl::StatusOr<std::optional<int64_t>> FirstHourOf(ledger::Index& index) {
  const absl::StatusOr<std::optional<int64_t>> usage = index.FirstHour();
  if (!usage.ok()) return usage.status();
  const absl::StatusOr<std::vector<int64_t>> feedback = index.feedback().Hours();
  if (!feedback.ok()) return feedback.status();
  if (feedback->empty()) return *usage;
  return std::optional(std::min(usage->value_or(feedback->front()), feedback->front()));
}

}  // namespace

UsageSharing::UsageSharing(net::Loop& loop, store::Store& store, Options options,
                           std::function<absl::Status()> flush)
    : loop_(loop),
      store_(store),
      options_(std::move(options)),
      flush_(std::move(flush)),
      pause_(loop.watchdog) {}

void UsageSharing::Start() {
  running_ = true;
  loop_.tasks.Spawn(Run());
}

void UsageSharing::Abandon() {
  stopped_ = true;
  pause_.Cancel();
}

net::Task<void> UsageSharing::Stop() {
  Abandon();
  net::Sleep tick(loop_.watchdog);
  while (running_) co_await tick.For(net::Watchdog::kTick);
  if (!trouble_.empty() || !number_) co_return;
  absl::Status told = co_await Follow();
  if (told.ok()) told = co_await Tell(true);
  Note(told);
}

net::Task<void> UsageSharing::Run() {
  while (!stopped_) {
    Note(co_await Once());
    if (!stopped_) co_await pause_.For(options_.follow_interval);
  }
  running_ = false;
}

void UsageSharing::Note(const absl::Status& status) {
  if (status.ok() != trouble_.empty()) {
    status.ok() ? log::Info("usage is shared with the other gateways again")
                : log::Warn("usage is not shared with the other gateways now; retrying",
                            {{"why", conf::Std(status.message())}});
  }
  trouble_ = conf::Std(status.message());
}

net::Task<absl::Status> UsageSharing::Once() {
  if (absl::Status followed = co_await Follow(); !followed.ok()) co_return followed;
  const conf::TimePoint now = net::Now();
  if (now >= tell_at_) {
    if (absl::Status told = co_await Tell(false); !told.ok()) co_return told;
    tell_at_ = now + options_.interval;
  }
  if (now < remove_at_) co_return absl::OkStatus();
  remove_at_ = now + kRemoveInterval;
  co_return co_await RemoveGone();
}

net::Task<absl::Status> UsageSharing::Follow() {
  if (!copy_) {
    auto opened =
        co_await net::OffLoop(loop_, [this] { return UsageCopy::Open(options_.copy_path, options_.source); });
    if (!opened.ok()) co_return opened.status();
    copy_ = *std::move(opened);
    number_.reset();
  }
  if (!number_) {
    const absl::StatusOr<uint64_t> number = co_await net::OffLoop(loop_, [this] { return copy_->Number(); });
    if (!number.ok()) co_return number.status();
    number_ = noted_ = *number;
  }
  if (*number_ == 0) co_return co_await Load();
  while (true) {
    const absl::StatusOr<store::ChangeList> page = co_await store_.Changes(store::kUsage, *number_);
    if (absl::IsOutOfRange(page.status())) co_return co_await Load();
    if (!page.ok()) co_return page.status();
    if (!page->changes.empty() || page->number > noted_ + kNoteAfter) {
      const absl::Status applied =
          co_await net::OffLoop(loop_, [this, &page] { return copy_->Apply(page->changes, page->number); });
      if (!applied.ok()) {
        if (!absl::IsDataLoss(applied)) co_return applied;
        copy_.reset();
        UsageCopy::Remove(options_.copy_path).IgnoreError();  // the next call says so, too
        co_return applied;
      }
      noted_ = page->number;
    }
    number_ = page->number;
    if (!page->more) co_return absl::OkStatus();
  }
}

net::Task<absl::Status> UsageSharing::Load() {
  absl::Status done = co_await net::OffLoop(loop_, [this] { return copy_->BeginLoad(); });
  if (!done.ok()) co_return done;
  std::string after;
  std::optional<uint64_t> number;  // later changes are read once more
  while (true) {
    const absl::StatusOr<store::Listing> page =
        co_await store_.ListPage(store::kUsage, after, kObjectsAtOnce);
    if (!page.ok()) co_return page.status();
    if (!number) number = page->number;
    done = co_await net::OffLoop(loop_, [this, &page] { return copy_->Load(page->objects); });
    if (!done.ok()) co_return done;
    if (page->objects.size() < kObjectsAtOnce) break;
    after = page->objects.back().id;
  }
  done = co_await net::OffLoop(loop_, [this, &number] { return copy_->EndLoad(*number); });
  if (done.ok()) number_ = noted_ = *number;
  co_return done;
}

net::Task<absl::Status> UsageSharing::Tell(bool closed) {
  const conf::TimePoint now = net::Now();
  Telling telling{.closed = closed};
  while (true) {
    absl::StatusOr<Plan> plan = co_await net::OffLoop(loop_, [this, &telling] { return MakePlan(telling); });
    if (!plan.ok()) co_return plan.status();
    const bool more = plan->more;
    const absl::Status committed = (co_await store_.Commit(std::move(plan->writes))).status();
    if (!committed.ok()) co_return committed;
    if (!more) break;
    // The versions of what was just written.
    if (absl::Status followed = co_await Follow(); !followed.ok()) co_return followed;
  }
  told_at_ = now;
  co_return absl::OkStatus();
}

// On a thread of its own.
absl::StatusOr<UsageSharing::Plan> UsageSharing::MakePlan(Telling& telling) {
  const conf::TimePoint now = net::Now();
  if (absl::Status flushed = flush_(); !flushed.ok()) return flushed;
  const absl::StatusOr<std::unique_ptr<ledger::Index>> index = ledger::OpenIndexUpToDate(options_.ledger_dir);
  if (!index.ok()) return index.status();
  const absl::StatusOr<uint64_t> first_seq = (*index)->FirstSeq();
  if (!first_seq.ok()) return first_seq.status();
  if (!telling.mark) {
    telling.mark = UsageMark{.source = options_.source,
                             .gateway = options_.gateway,
                             .seq = (*index)->applied_seq(),
                             .first_seq = *first_seq,
                             .as_of_us = conf::ToUnixMicros(now),
                             .closed = telling.closed,
                             .feedback = true};
    if (const std::optional<ledger::FirstRecord> first = ledger::FirstLeft(options_.ledger_dir))
      telling.mark->from_us = first->time_us;
  }
  const UsageMark& mark = *telling.mark;
  const absl::StatusOr<std::vector<UsageMark>> marks = copy_->Marks();
  if (!marks.ok()) return marks.status();
  const auto told = std::ranges::find(*marks, options_.source, &UsageMark::source);
  uint64_t told_seq = told == marks->end() ? 0 : told->seq;
  if (told_seq > mark.seq) {
    log::Warn("the store has more records of this ledger than the ledger has; its usage is shared again",
              {{"store", told_seq}, {"ledger", mark.seq}});
    told_seq = 0;
  }
  absl::StatusOr<std::vector<int64_t>> hours =
      ChangedHours(**index, told_seq, told != marks->end() && told->feedback);
  if (!hours.ok()) return hours.status();
  Plan plan;
  if (!telling.told_hour && told != marks->end() && told->first_seq < mark.first_seq) {
    // Retention has removed hours, and perhaps a part of the first one that is left.
    const absl::StatusOr<std::optional<int64_t>> first = FirstHourOf(**index);
    if (!first.ok()) return first.status();
    if (*first && std::ranges::find(*hours, **first) == hours->end()) hours->insert(hours->begin(), **first);
    const absl::StatusOr<std::map<std::string, uint64_t>> gone =
        copy_->PartsBefore(options_.source, first->value_or(HourOf(now)), kObjectsAtOnce);
    if (!gone.ok()) return gone.status();
    for (const auto& [id, version] : *gone)
      plan.writes.push_back({.kind = store::kUsage, .id = id, .replaces = version, .body = std::nullopt});
    plan.more = gone->size() == kObjectsAtOnce;
  }
  for (const int64_t hour : *hours) {
    if (telling.told_hour && hour <= *telling.told_hour) continue;
    if (plan.writes.size() >= kObjectsAtOnce) plan.more = true;
    if (plan.more) break;
    if (absl::Status added = AddHour(**index, hour, plan.writes); !added.ok()) return added;
    telling.told_hour = hour;
  }
  if (plan.more) return plan;
  const absl::StatusOr<uint64_t> version = copy_->VersionOf(options_.source);
  if (!version.ok()) return version.status();
  plan.writes.push_back(
      {.kind = store::kUsage, .id = options_.source, .replaces = *version, .body = BodyOf(mark)});
  return plan;
}

absl::Status UsageSharing::AddHour(ledger::Index& index, int64_t hour, std::vector<store::Write>& writes) {
  absl::StatusOr<std::vector<ledger::UsageCell>> cells = index.UsageOfHour(hour);
  if (!cells.ok()) return cells.status();
  absl::StatusOr<std::map<std::string, uint64_t>> there = copy_->PartsOf(options_.source, hour);
  if (!there.ok()) return there.status();
  absl::StatusOr<std::vector<ledger::FeedbackCell>> feedback = index.feedback().OfHour(hour);
  if (!feedback.ok()) return feedback.status();
  const auto write = [&](std::string id, std::string part) {
    const auto old = there->find(id);
    const uint64_t version = old == there->end() ? 0 : old->second;
    if (old != there->end()) there->erase(old);
    writes.push_back(
        {.kind = store::kUsage, .id = std::move(id), .replaces = version, .body = std::move(part)});
  };
  std::vector<std::string> parts = UsageParts(*std::move(cells));
  for (size_t i = 0; i < parts.size(); ++i) write(UsagePartId(options_.source, hour, i), std::move(parts[i]));
  parts = FeedbackParts(*std::move(feedback));
  for (size_t i = 0; i < parts.size(); ++i)
    write(FeedbackPartId(options_.source, hour, i), std::move(parts[i]));
  for (const auto& [id, version] : *there)
    writes.push_back({.kind = store::kUsage, .id = id, .replaces = version, .body = std::nullopt});
  return absl::OkStatus();
}

// What gateways told that are gone, once it is older than a ledger would keep it.
net::Task<absl::Status> UsageSharing::RemoveGone() {
  while (options_.retention) {
    absl::StatusOr<std::vector<store::Write>> writes =
        co_await net::OffLoop(loop_, [this] { return Outdated(net::Now()); });
    if (!writes.ok()) co_return writes.status();
    if (writes->empty()) break;
    const bool more = writes->size() >= kObjectsAtOnce;
    const absl::Status removed = (co_await store_.Commit(*std::move(writes))).status();
    if (!removed.ok() && !absl::IsAborted(removed)) co_return removed;  // another gateway was first
    if (absl::Status followed = co_await Follow(); !followed.ok()) co_return followed;
    if (!more || !removed.ok()) break;
  }
  co_return absl::OkStatus();
}

absl::StatusOr<std::vector<store::Write>> UsageSharing::Outdated(conf::TimePoint now) {
  std::vector<store::Write> writes;
  const absl::StatusOr<std::vector<UsageMark>> marks = copy_->Marks();
  if (!marks.ok()) return marks.status();
  for (const UsageMark& mark : *marks) {
    if (mark.source == options_.source || now - conf::FromUnixMicros(mark.as_of_us) < kSilent) continue;
    const absl::StatusOr<std::map<std::string, uint64_t>> parts =
        copy_->PartsBefore(mark.source, HourOf(now - *options_.retention), kObjectsAtOnce);
    if (!parts.ok()) return parts.status();
    for (const auto& [id, version] : *parts)
      writes.push_back({.kind = store::kUsage, .id = id, .replaces = version, .body = std::nullopt});
    if (writes.size() >= kObjectsAtOnce) break;
  }
  return writes;
}

}  // namespace gateway
