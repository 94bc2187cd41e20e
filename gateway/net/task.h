// Task<T>: a lazily started coroutine that is awaited exactly once, and TaskGroup, the only way to start one
// without awaiting it.
//
// Why not asio::awaitable: it costs a frame and a handler an operation and throws out of the next co_await
// after a cancellation. Here an I/O operation suspends straight into its completion, errors are values, and a
// cancelled operation is one that ended with an error.
//
// A suspended task must not be destroyed while one of its operations is pending: close its streams and let it
// run to its end. TaskGroup counts the tasks that have not ended.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

namespace gateway::net {

template <class T>
class Task;

namespace detail {

struct FinalAwaiter {
  bool await_ready() noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
    return done.promise().continuation;
  }
  void await_resume() noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::exception_ptr error;

  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }

  void* operator new(size_t size);
  void operator delete(void* frame, size_t size) noexcept;
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& u) {
    value.emplace(std::forward<U>(u));
  }
  T Take() {
    if (error) std::rethrow_exception(error);
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void Take() {
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    frame_.promise().continuation = caller;
    return frame_;
  }
  T await_resume() { return frame_.promise().Take(); }

 private:
  std::coroutine_handle<promise_type> frame_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

// One thread. Receives the exception of a task that threw, and reports when all tasks have ended.
class TaskGroup {
 public:
  using OnError = std::function<void(std::exception_ptr)>;

  explicit TaskGroup(OnError on_error) : on_error_(std::move(on_error)) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup();

  // Starts `task` at once; it runs until its first suspension before Spawn returns.
  void Spawn(Task<void> task);

  size_t running() const { return running_; }

  // Calls `then` when the last task has ended: at once if none runs.
  void WhenIdle(std::function<void()> then);

 private:
  struct Root;
  Root Drive(Task<void> task);
  void Ended();

  OnError on_error_;
  std::function<void()> when_idle_;
  size_t running_ = 0;
};

// A one-waiter event: Wait() suspends until Set(). Set before Wait is remembered. One thread.
class Event {
 public:
  void Set() {
    set_ = true;
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }
  void Reset() { set_ = false; }
  bool is_set() const { return set_; }

  auto Wait() {
    struct Awaiter {
      Event& event;
      bool await_ready() const noexcept { return event.set_; }
      void await_suspend(std::coroutine_handle<> h) noexcept { event.waiter_ = h; }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  std::coroutine_handle<> waiter_;
  bool set_ = false;
};

}  // namespace gateway::net
