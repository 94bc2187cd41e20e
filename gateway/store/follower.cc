#include "gateway/store/follower.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gateway/net/clock.h"

namespace gateway::store {
namespace {

constexpr conf::Duration kRetry = std::chrono::milliseconds(200);

}  // namespace

Follower::Follower(net::Loop& loop, Store& store, std::string kind, Copy copy)
    : loop_(loop), store_(store), kind_(std::move(kind)), copy_(std::move(copy)), pause_(loop.watchdog) {}

Follower::~Follower() {
  Stop();
}

net::Task<absl::Status> Follower::Start() {
  if (absl::Status loaded = co_await Load(); !loaded.ok()) co_return loaded;
  if (stopped_) co_return absl::CancelledError("the follower was stopped");
  listening_ = true;
  store_.Add(*this);
  co_return co_await CatchUp();  // changes that were committed between the two
}

void Follower::Stop() {
  stopped_ = true;
  if (std::exchange(listening_, false)) store_.Remove(*this);
  pause_.Cancel();
}

net::Task<absl::Status> Follower::Load() {
  absl::StatusOr<Listing> all = co_await store_.List(kind_);
  if (!all.ok()) co_return all.status();
  if (stopped_ || all->number < number_) co_return absl::OkStatus();
  number_ = all->number;
  copy_.replace(all->objects);
  co_return absl::OkStatus();
}

// May run several times at once: of an answer, only what is newer than the copy is applied.
net::Task<absl::Status> Follower::CatchUp() {
  std::vector<Change> changes;
  uint64_t number = number_;
  while (!stopped_) {
    absl::StatusOr<ChangeList> page = co_await store_.Changes(kind_, number);
    if (absl::IsOutOfRange(page.status())) {
      number_ = 0;  // where the store was put back to an older state, the copy goes back too
      co_return co_await Load();
    }
    if (!page.ok()) co_return page.status();
    changes.insert(changes.end(), std::make_move_iterator(page->changes.begin()),
                   std::make_move_iterator(page->changes.end()));
    number = page->number;
    if (page->more) continue;
    if (stopped_) break;
    std::erase_if(changes, [this](const Change& change) { return change.number <= number_; });
    number_ = std::max(number_, number);
    if (!changes.empty()) copy_.apply(changes);
    co_return absl::OkStatus();
  }
  co_return absl::CancelledError("the follower was stopped");
}

void Follower::OnChange(uint64_t number) {
  wanted_ = number;
  if (number == number_ || std::exchange(following_, true)) return;
  loop_.tasks.Spawn(Follow());
}

void Follower::OnRestored() {
  reload_ = true;
  if (!std::exchange(following_, true)) loop_.tasks.Spawn(Follow());
}

void Follower::OnHealth(const absl::Status& status) {
  store_health_ = status;
  ReportHealth();
}

void Follower::ReportHealth() {
  const absl::Status& worse = store_health_.ok() ? follow_health_ : store_health_;
  if (worse.ok() != std::exchange(reported_well_, worse.ok())) copy_.on_health(worse);
}

net::Task<void> Follower::Follow() {
  while (!stopped_) {
    const bool reloads = std::exchange(reload_, false);
    if (reloads) number_ = 0;
    const absl::Status caught_up = reloads ? co_await Load() : co_await CatchUp();
    if (stopped_) break;
    if (reloads && !caught_up.ok()) reload_ = true;
    follow_health_ = caught_up;
    ReportHealth();
    if (!caught_up.ok()) {
      co_await pause_.For(kRetry);
    } else if (!reload_ && number_ >= wanted_) {
      break;
    }
  }
  following_ = false;
}

}  // namespace gateway::store
