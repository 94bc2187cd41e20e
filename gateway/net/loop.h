// Loop: one thread's event loop with what every connection on it needs. Everything made on a loop lives and
// dies on its thread; other threads reach it only through Post().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "gateway/net/task.h"
#include "gateway/net/watchdog.h"

namespace gateway::net {

struct Loop {
  explicit Loop(TaskGroup::OnError on_error) : watchdog(io), tasks(std::move(on_error)) {}

  // Any thread.
  void Post(std::function<void()> fn) { asio::post(io, std::move(fn)); }

  // Runs until Stop() and every task has ended.
  void Run();
  // Loop's thread. Tasks end first: their owners close the streams that they wait for.
  void Stop();

  IoContext io{1};
  Watchdog watchdog;
  TaskGroup tasks;

 private:
  asio::executor_work_guard<IoContext::executor_type> work_{io.get_executor()};
};

// Runs the loop until `task` has ended: for a start before Run(), a command, and a test. Rethrows the task's
// exception. Not from within the loop.
template <class T>
T Await(Loop& loop, Task<T> task) {
  std::optional<T> result;
  std::exception_ptr error;
  const auto root = [](Task<T> awaited, std::optional<T>& into, std::exception_ptr& thrown) -> Task<void> {
    try {
      into.emplace(co_await awaited);
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  loop.tasks.Spawn(root(std::move(task), result, error));
  while (!result && !error) loop.io.run_one();
  if (error) std::rethrow_exception(error);
  return *std::move(result);
}

}  // namespace gateway::net
