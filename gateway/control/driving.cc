#include "gateway/control/driving.h"

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kMakeRetry = std::chrono::seconds(1);
constexpr conf::Duration kEndTick = std::chrono::milliseconds(20);
// Calls of operators that began in a term end long before: ledger and store answer within seconds, or refuse.
constexpr conf::Duration kEndedKept = std::chrono::minutes(5);

}  // namespace

Driving::Driving(net::Loop& loop, Leadership& leadership, Make make)
    : loop_(loop), leadership_(leadership), make_(std::move(make)), pause_(loop.watchdog) {
  leadership_.on_begin = [this](uint64_t) {
    if (started_) Begin();
  };
  leadership_.on_end = [this] {
    if (loop_of_term_ == nullptr || closed_) return;
    ++ending_;
    loop_.tasks.Spawn(End(std::move(loop_of_term_)));
    on_change();
  };
}

absl::Status Driving::Open() {
  if (!leadership_.leads()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<ScalingLoop>> made = make_(leadership_.epoch());
  if (!made.ok()) return made.status();
  loop_of_term_ = *std::move(made);
  return absl::OkStatus();
}

void Driving::Start() {
  started_ = true;
  if (loop_of_term_ != nullptr) {
    loop_of_term_->Start();
  } else if (leadership_.leads()) {
    Begin();
  }
}

void Driving::Begin() {
  DropEnded();
  if (closed_ || loop_of_term_ != nullptr || ending_ > 0 || !leadership_.leads()) return;
  absl::StatusOr<std::unique_ptr<ScalingLoop>> made = make_(leadership_.epoch());
  if (made.ok()) {
    loop_of_term_ = *std::move(made);
    loop_of_term_->Start();
    return on_change();
  }
  log::Error("this gateway leads, but can start nothing; retrying",
             {{"why", conf::Std(made.status().message())}});
  if (std::exchange(retrying_, true)) return;
  loop_.tasks.Spawn([](Driving& self) -> net::Task<void> {
    while (!self.closed_ && self.loop_of_term_ == nullptr && self.leadership_.leads()) {
      co_await self.pause_.For(kMakeRetry);
      self.Begin();
    }
    self.retrying_ = false;
  }(*this));
}

net::Task<void> Driving::End(std::unique_ptr<ScalingLoop> ended) {
  ScalingLoop& loop = *ended;
  co_await loop.Close(true);
  ended_.emplace_back(net::Now(), std::move(ended));
  --ending_;
  Begin();
}

void Driving::DropEnded() {
  while (!ended_.empty() && net::Now() - ended_.front().first > kEndedKept) ended_.pop_front();
}

net::Task<void> Driving::Close(bool keep) {
  closed_ = true;
  pause_.Cancel();
  if (loop_of_term_ != nullptr) co_await loop_of_term_->Close(keep);
  net::Sleep tick(loop_.watchdog);
  while (ending_ > 0) co_await tick.For(kEndTick);
  co_await leadership_.Resign();
}

}  // namespace gateway::control
