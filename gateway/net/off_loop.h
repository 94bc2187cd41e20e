// OffLoop: runs blocking work (fsync, getaddrinfo) on a thread of its own, so that the loop continues
// meanwhile. For work that happens a few times a second at most; the caller bounds it.
#pragma once

#include <coroutine>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "gateway/net/loop.h"

namespace gateway::net {

// Runs `fn`, which must not throw, and resumes on the loop's thread with its result. `fn` and what it refers
// to live in the awaiting frame.
template <class F>
Task<std::invoke_result_t<F&>> OffLoop(Loop& loop, F fn) {
  struct Awaiter {
    Loop& loop;
    F& fn;
    std::optional<std::invoke_result_t<F&>> result = std::nullopt;
    std::jthread thread = {};

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
      thread = std::jthread([this, waiter] {
        result.emplace(fn());
        loop.Post([waiter] { waiter.resume(); });
      });
    }
    std::invoke_result_t<F&> await_resume() {
      thread.join();
      return std::move(*result);
    }
  };
  Awaiter awaiter{loop, fn};
  co_return co_await awaiter;
}

}  // namespace gateway::net
