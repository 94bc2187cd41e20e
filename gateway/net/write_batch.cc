#include "gateway/net/write_batch.h"

#include <boost/asio/detail/scheduler.hpp>
#include <utility>

namespace gateway::net {
namespace {

using boost::asio::detail::scheduler;
using Operation = boost::asio::detail::scheduler_operation;

// Asio does not report whether more operations are ready. Its queue holds the operations of this turn in front of the
// operation that polls for the next turn; an explicit instantiation may name these private members.
bool HasMoreThisTurn(scheduler& loop);
template <auto kMutex, auto kQueue, auto kPoll>
struct SchedulerAccess {
  friend bool HasMoreThisTurn(scheduler& loop) {
    const boost::asio::detail::conditionally_enabled_mutex::scoped_lock lock(loop.*kMutex);
    const Operation* const next = (loop.*kQueue).front();
    return next != nullptr && next != &(loop.*kPoll);
  }
};
template struct SchedulerAccess<&scheduler::mutex_, &scheduler::op_queue_, &scheduler::task_operation_>;

}  // namespace

class WriteBatch::Flush final : private Operation {
 public:
  Flush(WriteBatch& batch, scheduler& loop) : Operation(&Flush::Run), batch_(batch), loop_(loop) {}

  bool MoreIsReady() const { return HasMoreThisTurn(loop_); }
  void Post() { loop_.post_immediate_completion(this, false); }

 private:
  // Without an owner the loop only drops what it holds.
  static void Run(void* owner, Operation* base, const boost::system::error_code& /*error*/,
                  size_t /*bytes*/) {
    if (owner != nullptr) static_cast<Flush*>(base)->batch_.Run();
  }

  WriteBatch& batch_;
  scheduler& loop_;
};

WriteBatch& WriteBatch::Of(boost::asio::io_context& io) {
  return boost::asio::use_service<WriteBatch>(io);
}

WriteBatch::WriteBatch(boost::asio::execution_context& context)
    : service(context),
      flush_(std::make_unique<Flush>(*this, boost::asio::use_service<scheduler>(context))) {}

WriteBatch::~WriteBatch() = default;

bool WriteBatch::MoreIsReady() const {
  return flush_->MoreIsReady();
}

void WriteBatch::Add(Awaiter& writer) {
  if (first_ == nullptr) flush_->Post();
  *end_ = &writer;
  end_ = &writer.next_;
}

void WriteBatch::Run() {
  Awaiter* writer = std::exchange(first_, nullptr);
  end_ = &first_;
  while (writer != nullptr) {
    Awaiter* const next = writer->next_;
    writer->writer_.resume();
    writer = next;
  }
}

}  // namespace gateway::net
