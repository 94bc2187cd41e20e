#include "gateway/net/task.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIDEGATE_PLAIN_FRAMES
#endif
#endif

namespace gateway::net {
namespace detail {

// Sanitizers see every frame's life.
#ifdef TIDEGATE_PLAIN_FRAMES

void* PromiseBase::operator new(size_t size) {
  return ::operator new(size);
}
void PromiseBase::operator delete(void* frame, size_t) noexcept {
  ::operator delete(frame);
}

#else

namespace {

// Coroutine frames are allocated and freed a dozen times a request, in few sizes: each thread keeps freed
// ones, by size and up to a bound, and that of a whole request too.
class FramePool {
 public:
  ~FramePool() {
    for (Node*& list : lists_) {
      while (list) ::operator delete(std::exchange(list, list->next));
    }
  }

  void* Take(size_t size) {
    const size_t index = Class(size);
    if (index >= kClasses) return ::operator new(size);
    Node*& list = lists_[index];
    if (!list) return ::operator new((index + 1) * kStep);
    --kept_[index];
    return std::exchange(list, list->next);
  }

  void Give(void* frame, size_t size) noexcept {
    const size_t index = Class(size);
    if (index >= kClasses || kept_[index] * (index + 1) >= kMostKept) {
      ::operator delete(frame);
      return;
    }
    ++kept_[index];
    lists_[index] = new (frame) Node{lists_[index]};
  }

 private:
  struct Node {
    Node* next;
  };
  static constexpr size_t kStep = 128;
  static constexpr size_t kClasses = 128;
  static constexpr size_t kMostKept = 2048;  // steps of a size: a quarter of a megabyte
  static size_t Class(size_t size) { return (size - 1) / kStep; }

  std::array<Node*, kClasses> lists_{};
  std::array<uint32_t, kClasses> kept_{};
};

thread_local FramePool frames;

}  // namespace

void* PromiseBase::operator new(size_t size) {
  return frames.Take(size);
}
void PromiseBase::operator delete(void* frame, size_t size) noexcept {
  frames.Give(frame, size);
}

#endif

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
