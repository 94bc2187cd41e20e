#include "gateway/net/task.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace gateway::net {
namespace detail {

void* PromiseBase::operator new(size_t size) {
  return ::operator new(size);
}
void PromiseBase::operator delete(void* frame, size_t size) noexcept {
  ::operator delete(frame, size);
}

}  // namespace detail

struct TaskGroup::Root {
  struct promise_type {
    Root get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

TaskGroup::Root TaskGroup::Drive(Task<void> task) {
  try {
    co_await task;
  } catch (...) {
    on_error_(std::current_exception());
  }
  Ended();
}

TaskGroup::~TaskGroup() {
  if (running_ != 0) std::abort();
}

void TaskGroup::Spawn(Task<void> task) {
  ++running_;
  Drive(std::move(task));
}

void TaskGroup::WhenIdle(std::function<void()> then) {
  if (running_ == 0) {
    then();
  } else {
    when_idle_ = std::move(then);
  }
}

void TaskGroup::Ended() {
  if (--running_ == 0 && when_idle_) std::exchange(when_idle_, nullptr)();
}

}  // namespace gateway::net
