#include "gateway/control/lead/leadership.h"

#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::control {
namespace {

// How old a confirmation may be for a launch.
constexpr conf::Duration kFresh = std::chrono::seconds(1);

}  // namespace

Leadership::Leadership(net::Loop& loop, store::Store& store, Options options)
    : Alarm(loop.watchdog),
      loop_(loop),
      store_(store),
      options_(std::move(options)),
      state_(options_.times) {}

net::Task<void> Leadership::Start() {
  if (!options_.alone) co_return co_await Ask();
  const absl::StatusOr<store::Lead> lead =
      co_await store_.Campaign(options_.holder, options_.about, options_.times.ttl);
  if (lead.ok()) {
    term_ = lead->epoch;
  } else {
    log::Warn("the epoch of this start is not in the store", {{"why", conf::Std(lead.status().message())}});
  }
  sole_ = true;
  leader_ = options_.about;
  on_begin(term_);
}

void Leadership::Stop() {
  stopped_ = true;
  Clear();
  Wake();
}

net::Task<void> Leadership::Resign() {
  Stop();
  const uint64_t epoch = std::exchange(term_, 0);
  state_.Resign();
  if (options_.alone || epoch == 0) co_return;
  const absl::Status resigned = co_await store_.Resign(options_.holder, epoch);
  if (!resigned.ok()) log::Warn("the lead was not given up", {{"why", conf::Std(resigned.message())}});
}

uint64_t Leadership::epoch() const {
  if (options_.alone) return term_;
  const uint64_t epoch = state_.EpochAt(net::Now());
  return epoch == term_ ? epoch : 0;
}

bool Leadership::leads() const {
  return options_.alone ? sole_ : epoch() != 0;
}

net::Task<absl::Status> Leadership::Confirm() {
  if (options_.alone) co_return absl::OkStatus();
  const conf::TimePoint from = net::Now() - kFresh;
  const auto confirmed = [&] { return leads() && state_.ConfirmedSince(from); };
  // Concurrent calls share one ask. An ask that was sent too early for this call does not count: the next one does.
  for (bool counts = false; !counts && leads() && !confirmed() && !stopped_;) {
    counts = under_way_ == 0 || asked_ >= from;
    if (under_way_ == 0) loop_.tasks.Spawn(Ask());
    if (under_way_ == 0) continue;  // it was answered at once
    net::Event ended;
    waiting_.push_back(&ended);
    co_await ended.Wait();
  }
  if (confirmed()) co_return absl::OkStatus();
  co_return absl::UnavailableError("this gateway is not known to lead");
}

void Leadership::Wake() {
  for (net::Event* const waits : std::exchange(waiting_, {})) waits->Set();
}

void Leadership::Deposed(uint64_t epoch) {
  if (options_.alone) return;
  state_.Deposed(epoch, net::Now());
  Update();
}

void Leadership::OnAlarm() {
  Update();
  if (!stopped_ && state_.Due(net::Now())) loop_.tasks.Spawn(Ask());
}

net::Task<void> Leadership::Ask() {
  asked_ = net::Now();
  const uint64_t ask = state_.Asked(asked_);
  under_way_ = ask;
  Update();
  const absl::StatusOr<store::Lead> lead =
      co_await store_.Campaign(options_.holder, options_.about, options_.times.ttl);
  const bool latest = under_way_ == ask;
  if (latest) under_way_ = 0;
  if (stopped_) co_return;
  std::optional<LeadState::Answer> answer;
  if (lead.ok()) {
    answer = LeadState::Answer{.mine = lead->mine, .epoch = lead->epoch, .holder = lead->holder};
    leader_ = lead->about;
  }
  const bool refused = state_.Answered(ask, std::move(answer), net::Now());
  Update();
  if (latest) Wake();
  // The epochs of a store that was restored from an older copy begin again where that copy was.
  if (refused) (co_await store_.Resign(options_.holder, lead->epoch)).IgnoreError();  // the next answer tells
}

void Leadership::Update() {
  if (options_.alone || stopped_) return;
  const conf::TimePoint now = net::Now();
  Set(state_.next(now));
  const uint64_t epoch = state_.EpochAt(now);
  if (epoch == term_) return;
  if (std::exchange(term_, epoch) != 0) {
    log::Warn("this gateway no longer leads");
    on_end();
    Wake();
  }
  if (epoch == 0) return;
  log::Info("this gateway leads", {{"epoch", epoch}});
  on_begin(epoch);
}

}  // namespace gateway::control
