#include "bench/replay/replayer.h"

#include <fmt/format.h>

#include <boost/asio/basic_waitable_timer.hpp>
#include <utility>

#include "bench/client/retries.h"
#include "gateway/net/clock.h"

namespace bench {
namespace {

namespace net = gateway::net;

constexpr conf::Duration kProgressInterval = std::chrono::milliseconds(200);

// Waits to the microsecond, which the watchdog's ticks of 10 ms do not, and lets the event loop run once even
// when there is nothing to wait for.
class PreciseTimer {
 public:
  explicit PreciseTimer(net::Loop& loop) : timer_(loop.io) {}

  auto For(conf::Duration wait) {
    struct Awaiter {
      PreciseTimer& self;
      conf::Duration wait;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        self.timer_.expires_after(wait);
        self.timer_.async_wait([waiter](net::ErrorCode) { waiter.resume(); });
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this, wait};
  }

 private:
  boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                    boost::asio::wait_traits<std::chrono::steady_clock>,
                                    net::IoContext::executor_type>
      timer_;
};

}  // namespace

Replayer::Replayer(net::Loop& loop, Client& client, const std::vector<Call>& calls, const Prompts& prompts,
                   ReplayOptions options)
    : loop_(loop),
      client_(client),
      calls_(calls),
      prompts_(prompts),
      options_(std::move(options)),
      progress_sleep_(loop.watchdog) {}

void Replayer::Run(std::function<void()> on_progress) {
  begin_ = net::Now();
  loop_.tasks.Spawn(Send());
  loop_.tasks.Spawn(Progress(std::move(on_progress)));
  loop_.Stop();
  loop_.Run();
}

conf::TimePoint Replayer::TimeOf(size_t index) const {
  const conf::Duration at = calls_[index].at - calls_.front().at;
  return begin_ + conf::Duration(static_cast<int64_t>(static_cast<double>(at.count()) / options_.speed_up));
}

conf::Duration Replayer::TimeLeft() const {
  return calls_.empty() ? conf::Duration::zero()
                        : std::max(TimeOf(calls_.size() - 1) - net::Now(), conf::Duration::zero());
}

std::string Replayer::MakeBody(size_t index) const {
  const Call& call = calls_[index];
  return fmt::format(
      R"({{"model":"{}","messages":[{{"role":"user","content":"{}"}}],"max_tokens":{},"ignore_eos":true{}}})",
      ModelOf(index), prompts_.Text(call, index), prompts_.OutputTokens(call),
      options_.stream ? R"(,"stream":true,"stream_options":{"include_usage":true})" : "");
}

net::Task<void> Replayer::Send() {
  PreciseTimer timer(loop_);
  for (size_t index = 0; index < calls_.size(); ++index) {
    std::string body = MakeBody(index);
    const conf::TimePoint at = TimeOf(index);
    co_await timer.For(at - net::Now());
    ++sent_;
    loop_.tasks.Spawn(CallOne(index, std::move(body), net::Now() - at));
  }
}

net::Task<void> Replayer::CallOne(size_t index, std::string body, conf::Duration late) {
  const Answer answer = co_await Try(index, std::move(body));
  const Call& call = calls_[index];
  report_.Add(ModelOf(index), answer, prompts_.InputTokens(call), prompts_.OutputTokens(call), late);
  if (++ended_ == calls_.size()) progress_sleep_.Cancel();
}

// Times of the answer count from the first try on.
net::Task<Answer> Replayer::Try(size_t index, std::string body) {
  const conf::TimePoint begun = net::Now();
  net::Sleep sleep(loop_.watchdog);
  for (uint32_t tries = 1;; ++tries) {
    const std::string id = fmt::format("{}.{}", index, tries);
    const conf::Duration waited = net::Now() - begun;
    Answer answer = co_await client_.Call(body, id);
    answer.to_first += waited;
    answer.to_last += waited;
    answer.total += waited;
    options_.on_attempt({id, ModelOf(index), answer});
    const std::optional<conf::Duration> again = RetryAfter(answer, tries, rng_);
    if (!again || tries > options_.retries) co_return answer;
    report_.AddRetry();
    co_await sleep.For(*again);
  }
}

net::Task<void> Replayer::Progress(std::function<void()> on_progress) {
  while (ended_ < calls_.size()) {
    on_progress();
    co_await progress_sleep_.For(kProgressInterval);
  }
  on_progress();
}

}  // namespace bench
