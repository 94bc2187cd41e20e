// WriteBatch: lets the writes of one turn of a loop follow each other, after everything that was ready in it has
// been handled.
//
// A write wakes a peer that sleeps. Where the peer runs on this machine, waking it costs more than the write
// itself, and of writes between other work each wakes its peer anew. In a row they find it awake. Whoever waits
// here waits for what was ready at the same time and for nothing else: a write that comes alone waits for nothing.
//
// Owner: the io_context, one each. Thread: the loop's.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <coroutine>
#include <memory>

namespace gateway::net {

class WriteBatch final : public boost::asio::execution_context::service {
 public:
  class Awaiter;

  static inline boost::asio::execution_context::id id;
  static WriteBatch& Of(boost::asio::io_context& io);

  explicit WriteBatch(boost::asio::execution_context& context);
  ~WriteBatch() override;

  // co_await: until the writes of this turn are due. Only within the loop.
  Awaiter Wait();

 private:
  class Flush;

  void shutdown() override {}
  bool MoreIsReady() const;
  void Add(Awaiter& writer);
  void Run();

  const std::unique_ptr<Flush> flush_;  // runs behind what is ready
  Awaiter* first_ = nullptr;
  Awaiter** end_ = &first_;
};

class WriteBatch::Awaiter {
 public:
  explicit Awaiter(WriteBatch* batch) : batch_(batch) {}  // null: there is no wait
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;

  bool await_ready() const { return batch_ == nullptr || !batch_->MoreIsReady(); }
  void await_suspend(std::coroutine_handle<> writer) {
    writer_ = writer;
    batch_->Add(*this);
  }
  void await_resume() const noexcept {}

 private:
  friend class WriteBatch;
  WriteBatch* const batch_;
  std::coroutine_handle<> writer_;
  Awaiter* next_ = nullptr;
};

inline WriteBatch::Awaiter WriteBatch::Wait() {
  return Awaiter(this);
}

}  // namespace gateway::net
