#include "gateway/control/metering/metering.h"

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kTellRetry = std::chrono::seconds(1);
constexpr conf::Duration kMeteredMinute = std::chrono::minutes(1);
// After a whole minute: by then the holders at its end are known.
constexpr conf::Duration kHindsight = std::chrono::seconds(3);
constexpr size_t kMaxWaiting = 4096;
constexpr size_t kRecordsAtOnce = 2000;

bool SameInterval(const ledger::DeviceRecord& a, const ledger::DeviceRecord& b) {
  return a.from_us == b.from_us && a.model == b.model && a.job == b.job && a.device == b.device;
}

}  // namespace

Metering::Metering(net::Loop& loop, std::unique_ptr<MeterLedger> ledger,
                   std::function<std::vector<HeldDevices>()> held,
                   std::function<void(std::span<const ledger::DeviceRecord>)> charge,
                   std::unique_ptr<MeteredMarks> marks,
                   std::function<std::vector<ledger::Served>()> served_elsewhere, EnergyTariff tariff)
    : loop_(loop),
      ledger_(std::move(ledger)),
      held_(std::move(held)),
      charge_(std::move(charge)),
      marks_(std::move(marks)),
      served_elsewhere_(std::move(served_elsewhere)),
      begun_(net::Now()),
      meter_(std::move(tariff)),
      turns_(kMaxWaiting),
      pause_(loop.watchdog) {}

net::Task<void> Metering::Run() {
  running_ = true;
  while (!closed_) {
    const bool counted = co_await Count({}, DeviceMeter::MinuteOf(net::Now() - kHindsight));
    if (closed_) break;
    if (counted) {
      co_await pause_.Until(DeviceMeter::MinuteOf(net::Now() - kHindsight) + kMeteredMinute + kHindsight);
    } else {
      co_await pause_.For(kTellRetry);
    }
  }
  running_ = false;
}

void Metering::Draw(std::span<const DrawnEnergy> drawn) {
  if (!drawn.empty()) meter_.Draw(drawn, held_());
}

void Metering::Close() {
  closed_ = true;
  pause_.Cancel();
}

net::Task<bool> Metering::UpToNow(HeldBy by) {
  co_return co_await Count(std::move(by), net::Now());
}

net::Task<bool> Metering::Count(HeldBy by, conf::TimePoint until) {
  if (!co_await turns_.Lock()) co_return false;
  const bool counted = co_await CountInTurn(std::move(by), until);
  turns_.Unlock();
  if (counted == failing_) {
    failing_ = !counted;
    failing_ ? log::Error("device time cannot be recorded; no device is released before it is",
                          {{"why", trouble_}})
             : log::Info("device time is recorded again");
  }
  co_return counted;
}

bool Metering::Failed(const absl::Status& why) {
  trouble_ = conf::Std(why.message());
  return false;
}

net::Task<bool> Metering::CountInTurn(HeldBy by, conf::TimePoint until) {
  if (!known_ && !co_await GoOn()) co_return false;
  std::vector<HeldDevices> held = held_();
  if (held.empty() && !by.all()) co_return true;
  const absl::StatusOr<std::vector<ledger::Served>> served =
      co_await net::OffLoop(loop_, [this] { return ledger_->TakeServed(); });
  if (!served.ok()) co_return Failed(served.status());
  if (by.all()) meter_.KeepOnly(held);
  if (by.all() && marks_) (co_await marks_->KeepOnly(held)).IgnoreError();  // tried again in a minute
  meter_.Serve(*served, held);
  if (served_elsewhere_) meter_.Serve(served_elsewhere_(), held);
  co_return co_await Write(meter_.Next(held, by, until));
}

// Removes the records that the ledger already holds; at the start, the time since the last of them is counted.
net::Task<bool> Metering::GoOn() {
  const absl::StatusOr<std::vector<ledger::LastHeld>> last =
      co_await net::OffLoop(loop_, [this] { return ledger_->Last(); });
  if (!last.ok()) co_return Failed(last.status());
  if (first_ && marks_) {
    absl::StatusOr<std::vector<ledger::LastHeld>> marked = co_await marks_->Load();
    if (!marked.ok()) co_return Failed(marked.status());
    marked_ = *std::move(marked);
  }
  Decide(*last);
  std::vector<ledger::LastHeld> recorded = *last;
  for (const ledger::LastHeld& mark : marked_) {
    const bool later = std::ranges::none_of(*last, [&](const ledger::LastHeld& own) {
      return own.model == mark.model && own.job == mark.job && own.device == mark.device &&
             own.until_us >= mark.until_us;
    });
    if (later) recorded.push_back(mark);
  }
  std::vector<ledger::DeviceRecord> missing = meter_.GoOn(recorded, begun_);
  known_ = true;
  if (!co_await Write(std::move(missing))) co_return false;
  if (!first_) co_return true;
  const std::vector<HeldDevices> held = held_();
  const absl::StatusOr<std::vector<ledger::Served>> served = co_await net::OffLoop(
      loop_, [this, since = meter_.GoesOnAt(held)] { return ledger_->ServedBefore(since); });
  if (!served.ok()) {
    known_ = false;
    co_return Failed(served.status());
  }
  meter_.Serve(*served, held);
  first_ = false;
  co_return co_await Write(meter_.Next(held, {}, begun_));
}

// Records of one interval go together.
net::Task<bool> Metering::Write(std::vector<ledger::DeviceRecord> records) {
  for (size_t begin = 0; begin < records.size();) {
    size_t end = std::min(begin + kRecordsAtOnce, records.size());
    while (end < records.size() && SameInterval(records[end - 1], records[end])) ++end;
    const std::vector<ledger::DeviceRecord> batch(records.begin() + static_cast<ptrdiff_t>(begin),
                                                  records.begin() + static_cast<ptrdiff_t>(end));
    if (marks_) {
      if (const absl::Status announced = co_await marks_->Announce(batch); !announced.ok())
        co_return Failed(announced);
    }
    const absl::Status written =
        co_await net::OffLoop(loop_, [this, &batch] { return ledger_->Append(batch); });
    if (!written.ok()) {
      known_ = false;
      undecided_ = batch;
      co_return Failed(written);
    }
    AddWritten(batch);
    begin = end;
  }
  co_return true;
}

void Metering::AddWritten(std::span<const ledger::DeviceRecord> written) {
  meter_.Written(written);
  for (const ledger::DeviceRecord& record : written) {
    const std::tuple of{record.tenant, record.model, record.device};
    if (record.device_us > 0) totals_[of] += record.device_us;
    if (record.energy_mj > 0) energy_[of] += record.energy_mj;
  }
  charge_(written);
}

// If only a part of an interval is on disk, it is the part with the first records.
void Metering::Decide(std::span<const ledger::LastHeld> last) {
  int64_t sum = 0;
  for (size_t i = 0; i < undecided_.size(); ++i) {
    const ledger::DeviceRecord& record = undecided_[i];
    sum = (i > 0 && SameInterval(undecided_[i - 1], record) ? sum : 0) + record.device_us;
    const auto held = std::ranges::find_if(last, [&](const ledger::LastHeld& one) {
      return one.model == record.model && one.job == record.job && one.device == record.device;
    });
    if (held == last.end() || held->until_us < record.until_us) continue;
    if (held->until_us == record.until_us && held->device_us < sum) continue;
    AddWritten(std::span(&record, 1));
  }
  undecided_.clear();
}

}  // namespace gateway::control
