#include "gateway/shard/running_calls.h"

#include <gtest/gtest.h>

#include <memory>

namespace gateway {
namespace {

using plugins::auth::KeyRecord;
using plugins::auth::KeyTable;

class Call final : public RunningCalls::Call {
 public:
  Call(RunningCalls& calls, std::string_view key) { Begin(calls, key); }
  int revoked = 0;
  std::unique_ptr<Call> ends_too;

 private:
  void OnRevoked() override {
    ++revoked;
    ends_too.reset();
  }
};

KeyTable Keys(std::initializer_list<std::pair<const char*, bool>> keys) {
  KeyTable::Map map;
  for (const auto& [id, revoked] : keys) {
    KeyRecord record;
    record.id = id;
    if (revoked) record.revoked_at = conf::TimePoint();
    map[id] = std::make_shared<const KeyRecord>(record);
  }
  return KeyTable(1, std::move(map));
}

TEST(RunningCalls, EndsTheCallsOfRevokedAndMissingKeysOnce) {
  RunningCalls calls;
  Call a(calls, "a"), a_too(calls, "a"), b(calls, "b"), gone(calls, "gone");
  calls.OnKeys(Keys({{"a", false}, {"b", false}, {"gone", false}}));
  EXPECT_EQ(a.revoked + a_too.revoked + b.revoked + gone.revoked, 0);
  for (int i = 0; i < 2; ++i) calls.OnKeys(Keys({{"a", true}, {"b", false}}));
  EXPECT_EQ(a.revoked, 1);
  EXPECT_EQ(a_too.revoked, 1);
  EXPECT_EQ(gone.revoked, 1);
  EXPECT_EQ(b.revoked, 0);
  EXPECT_EQ(calls.size(), 1u);
}

TEST(RunningCalls, ACallThatEndsMayEndAnother) {
  RunningCalls calls;
  Call one(calls, "a");
  one.ends_too = std::make_unique<Call>(calls, "a");
  Call two(calls, "a");
  two.ends_too = std::make_unique<Call>(calls, "a");
  calls.OnKeys(Keys({{"a", true}}));
  EXPECT_EQ(one.revoked, 1);
  EXPECT_EQ(two.revoked, 1);
  EXPECT_EQ(calls.size(), 0u);
}

}  // namespace
}  // namespace gateway
