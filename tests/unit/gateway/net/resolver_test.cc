#include "gateway/net/resolver.h"

#include <gtest/gtest.h>

#include <boost/asio/error.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "gateway/net/transport.h"
#include "tests/support/loop_test.h"

namespace gateway::net {
namespace {

using std::chrono::milliseconds;
using tests::TestLoop;

const ErrorCode kNoSuchName = asio::error::host_not_found;
const ErrorCode kNoNameServer = asio::error::host_not_found_try_again;

// Knows what it is told, and answers for some names only when it is told so.
class NameServer {
 public:
  ~NameServer() { Release(); }

  void Says(const std::string& name, Resolved what) {
    const std::scoped_lock lock(mutex_);
    known_[name] = std::move(what);
  }
  void SaysAddress(const std::string& name, const std::string& address) {
    Says(name, {{}, {asio::ip::make_address(address)}});
  }
  void Hold(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    held_.insert(name);
  }
  void Release() {
    const std::scoped_lock lock(mutex_);
    held_.clear();
    released_.notify_all();
  }
  int asked(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return asked_[name];
  }

  Resolver::Lookup lookup() {
    return [this](const std::string& name) {
      std::unique_lock lock(mutex_);
      ++asked_[name];
      released_.wait(lock, [&] { return !held_.contains(name); });
      const auto found = known_.find(name);
      return found == known_.end() ? Resolved{kNoSuchName, {}} : found->second;
    };
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  std::map<std::string, Resolved> known_;
  std::set<std::string> held_;
  std::map<std::string, int> asked_;
};

// What a wait for `name` ends with.
Task<Resolved> Get(TestLoop& loop, Resolver& resolver, std::string name) {
  Resolver::Wait wait(resolver, loop.io);
  co_return co_await wait.Get(std::move(name));
}

std::string Text(const Resolved& resolved) {
  if (resolved.error == kNoSuchName) return "no such name";
  if (resolved.error == kNoNameServer) return "no name server";
  if (resolved.error) return resolved.error.message();
  std::string text;
  for (const auto& address : resolved.addresses) text += address.to_string() + " ";
  return text;
}

Resolver::Options AskAlways() {
  Resolver::Options options;
  options.fresh = {};
  options.patience = milliseconds(30);
  return options;
}

// Accepts, and says nothing.
class Mute {
 public:
  explicit Mute(TestLoop& loop) {
    Acceptor::Options options;
    options.address = "127.0.0.1:0";
    auto acceptor =
        Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, std::move(options),
                         [this](std::unique_ptr<Stream> stream) { streams_.push_back(std::move(stream)); });
    EXPECT_TRUE(acceptor.ok());
    acceptor_ = *std::move(acceptor);
  }
  std::string port() const { return std::to_string(acceptor_->port()); }
  void Close() { acceptor_->Close(); }

 private:
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

struct ResolverTest : testing::Test {
  NameServer names;
};

TEST_F(ResolverTest, OneSlowNameDoesNotDelayOthers) {
  Resolver resolver(AskAlways(), names.lookup());
  names.Hold("slow");
  names.SaysAddress("slow", "10.0.0.1");
  names.SaysAddress("quick", "10.0.0.2");
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    Event slow_ended;
    std::string slow;
    const auto wait = [&]() -> Task<void> {
      slow = Text(co_await Get(loop, resolver, "slow"));
      slow_ended.Set();
    };
    loop.tasks.Spawn(wait());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Text(co_await Get(loop, resolver, "quick")), "10.0.0.2 ");
    EXPECT_FALSE(slow_ended.is_set());
    names.Release();
    co_await slow_ended.Wait();
    EXPECT_EQ(slow, "10.0.0.1 ");
  });
}

TEST_F(ResolverTest, WaitersForANameShareOneLookUp) {
  Resolver resolver(AskAlways(), names.lookup());
  names.Hold("replica");
  names.SaysAddress("replica", "10.0.0.1");
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    int answered = 0;
    const auto wait = [&]() -> Task<void> {
      EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "10.0.0.1 ");
      ++answered;
    };
    for (int i = 0; i < 20; ++i) loop.tasks.Spawn(wait());
    names.Release();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return answered == 20; }));
  });
  EXPECT_EQ(names.asked("replica"), 1);
}

TEST_F(ResolverTest, AFreshAnswerIsReused) {
  Resolver::Options options;
  options.fresh = std::chrono::hours(1);
  Resolver resolver(options, names.lookup());
  names.SaysAddress("replica", "10.0.0.1");
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "10.0.0.1 ");
  });
  EXPECT_EQ(names.asked("replica"), 1);
}

TEST_F(ResolverTest, WithoutANameServerTheLastAnswerHolds) {
  Resolver::Options options = AskAlways();
  options.patience = std::chrono::hours(1);
  Resolver resolver(options, names.lookup());
  names.SaysAddress("replica", "10.0.0.1");
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "10.0.0.1 ");
    names.Says("replica", {kNoNameServer, {}});
    EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "10.0.0.1 ") << "it says that it cannot know";
    names.SaysAddress("replica", "10.0.0.2");
    EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "10.0.0.2 ") << "it is back";
    names.Says("replica", {kNoSuchName, {}});
    EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "no such name");
    names.Says("replica", {kNoNameServer, {}});
    EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "no name server") << "what is gone is forgotten";
  });
}

TEST_F(ResolverTest, TheLastAnswerHoldsWhileTheNameServerIsSilent) {
  Resolver resolver(AskAlways(), names.lookup());
  names.SaysAddress("replica", "10.0.0.1");
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    std::string known;
    while (known != "10.0.0.1 ") known = Text(co_await Get(loop, resolver, "replica"));
    names.Hold("replica");
    EXPECT_EQ(Text(co_await Get(loop, resolver, "replica")), "10.0.0.1 ");
    names.SaysAddress("replica", "10.0.0.2");
    names.Release();
    while (known == "10.0.0.1 ") known = Text(co_await Get(loop, resolver, "replica"));
    EXPECT_EQ(known, "10.0.0.2 ") << "it is back";
  });
}

TEST_F(ResolverTest, RemembersNoMoreNamesThanItMay) {
  Resolver::Options options = AskAlways();
  options.max_names = 2;
  Resolver resolver(options, names.lookup());
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    for (const std::string name : {"a", "b", "c"}) {
      names.SaysAddress(name, "10.0.0.1");
      EXPECT_EQ(Text(co_await Get(loop, resolver, name)), "10.0.0.1 ");
      names.Says(name, {kNoNameServer, {}});
    }
    EXPECT_EQ(Text(co_await Get(loop, resolver, "c")), "10.0.0.1 ");
    EXPECT_EQ(Text(co_await Get(loop, resolver, "a")), "no name server");
  });
}

TEST_F(ResolverTest, AConnectorThatIsAbortedDoesNotWaitForItsName) {
  names.Hold("slow");
  Resolver resolver(AskAlways(), names.lookup());
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    Connector connector(loop.io, resolver);
    Event ended;
    const auto connect = [&]() -> Task<void> {
      Remote remote{"slow", "80", nullptr, {}};
      const ConnectResult result = co_await connector.Connect(remote);
      EXPECT_EQ(result.error, asio::error::operation_aborted);
      ended.Set();
    };
    loop.tasks.Spawn(connect());
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return names.asked("slow") == 1; }));
    connector.Abort();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return ended.is_set(); })) << "it waits on";
    if (!ended.is_set()) names.Release();
    co_await ended.Wait();
  });
  names.Release();
}

TEST_F(ResolverTest, AnUnneededAnswerMayOutliveTheLoop) {
  names.Hold("slow");
  names.SaysAddress("slow", "127.0.0.1");
  Resolver resolver(AskAlways(), names.lookup());
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    Resolver::Wait wait(resolver, loop.io);
    const auto abort = [&]() -> Task<void> {
      Sleep sleep(loop.watchdog);
      co_await sleep.For(milliseconds(20));
      wait.Abort();
    };
    loop.tasks.Spawn(abort());
    EXPECT_EQ((co_await wait.Get("slow")).error, asio::error::operation_aborted);
  });
  names.Release();
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    EXPECT_EQ(Text(co_await Get(loop, resolver, "slow")), "127.0.0.1 ");
  });
}

TEST_F(ResolverTest, ANumericAddressIsNotLookedUp) {
  Resolver resolver(AskAlways(), names.lookup());
  tests::RunOnLoop([&](TestLoop& loop) -> Task<void> {
    Mute& peer = loop.Make<Mute>();
    for (const auto& [host, asked] : std::map<std::string, int>{{"127.0.0.1", 0}, {"replica", 1}}) {
      names.SaysAddress(host, "127.0.0.1");
      Connector connector(loop.io, resolver);
      Remote remote{host, peer.port(), nullptr, {}};
      const ConnectResult result = co_await connector.Connect(remote);
      EXPECT_FALSE(result.error) << result.error.message();
      EXPECT_EQ(names.asked(host), asked);
      if (result.stream) result.stream->Close();
    }
    peer.Close();
  });
}

TEST_F(ResolverTest, TheSystemKnowsItsOwnName) {
  const Resolved found = Resolver::SystemLookup("localhost");
  EXPECT_FALSE(found.error) << found.error.message();
  ASSERT_FALSE(found.addresses.empty());
  EXPECT_TRUE(found.addresses.front().is_loopback());
  EXPECT_EQ(Resolver::SystemLookup("no such name").error, kNoSuchName);
}

}  // namespace
}  // namespace gateway::net
