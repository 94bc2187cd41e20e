// The ring of the ledger's records is full because its thread is behind: requests wait for a moment.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "gateway/ledger/file_ops.h"
#include "gateway/request/exchange.h"
#include "gateway/request/stages.h"
#include "tests/unit/gateway/request/request_world.h"

namespace gateway {
namespace {

// Blocks the ledger's thread in a sync until the test releases it.
class HeldDisk final : public ledger::FileOps {
 public:
  absl::Status Sync(int fd) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
    return FileOps::Sync(fd);
  }
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

class OpenRecord : public testing::Test {
 protected:
  OpenRecord() {
    world_.Configure("  - {name: chat-small, endpoints: [{url: 'http://127.0.0.1:1', engine: vllm}]}");
    exchange_.emplace(*world_.shard, connection_, net::Now());
    exchange_->runtime = world_.runtime;
    exchange_->identity.principal = std::make_shared<Principal>();
    exchange_->identity.spec = &router::SpecOf(router::Api::kChatCompletions);
  }
  ~OpenRecord() override {
    exchange_.reset();
    disk_.Hold(false);
  }

  void FillRing() {
    disk_.Hold(true);
    ledger::CloseRecord refused;
    refused.reason = ledger::EndReason::kRefused;
    while (world_.shard->journal.Refuse(stages::OpenRecordOf(*exchange_), refused)) {
    }
    ASSERT_TRUE(world_.shard->journal.RingFull());
  }
  StageResult Open() { return world_.Await(stages::OpenRecord(*exchange_)); }

  HeldDisk disk_;
  RequestWorld world_{&disk_};
  const net::http::ConnectionLimits limits_;
  net::http::ServerConnection connection_{world_.shard->loop,
                                          std::make_unique<HeadStream>(world_.shard->loop, ""), limits_};
  std::optional<Exchange> exchange_;
};

TEST_F(OpenRecord, WaitsWhileTheLedgersThreadIsBehind) {
  FillRing();
  net::Sleep later(world_.shard->loop.watchdog);
  world_.shard->loop.tasks.Spawn([](HeldDisk& disk, net::Sleep& sleep) -> net::Task<void> {
    co_await sleep.For(std::chrono::milliseconds(50));
    disk.Hold(false);
  }(disk_, later));
  ASSERT_EQ(Open(), StageResult::kContinue);
  EXPECT_EQ(world_.shard->journal.refused_opens(), 0u);
  exchange_->grant.ticket.Close({});
}

TEST_F(OpenRecord, IsRefusedWhenTheRingStaysFull) {
  FillRing();
  EXPECT_EQ(Open(), StageResult::kFailed);
  ASSERT_TRUE(exchange_->outcome.error);
  EXPECT_EQ(exchange_->outcome.error->code, "ledger_unavailable");
  EXPECT_EQ(world_.shard->journal.refused_opens(), 1u);
}

}  // namespace
}  // namespace gateway
