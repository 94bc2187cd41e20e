#include "plugins/launchers/broker/messages.h"

#include <gtest/gtest.h>

namespace plugins::launchers {
namespace {

using nlohmann::json;

TEST(BrokerMessages, AnOrderHasEveryField) {
  const RunOrder order{.id = "a",
                       .user = "tidegate-1",
                       .program = "/usr/bin/vllm",
                       .argv = {"vllm", "serve"},
                       .env = {"PATH=/usr/bin"},
                       .directory = "/srv",
                       .cgroup = "/sys/fs/cgroup/a",
                       .record = "{}",
                       .result = "/state/a.result",
                       .log = "/state/a.log",
                       .log_bytes = 1 << 20,
                       .log_floor = 7,
                       .grace = std::chrono::seconds(30),
                       .limits = {.processes = 1, .open_files = 2, .file_bytes = 3, .memory_mib = -4}};
  const json written = order;
  EXPECT_EQ(
      written.dump(),
      R"({"argv":["vllm","serve"],"cgroup":"/sys/fs/cgroup/a","directory":"/srv","env":["PATH=/usr/bin"],)"
      R"("grace":30000000000,"id":"a","limits":{"file_bytes":3,"memory_mib":-4,"open_files":2,)"
      R"("processes":1},"log":"/state/a.log","log_bytes":1048576,"log_floor":7,"program":"/usr/bin/vllm",)"
      R"("record":"{}","result":"/state/a.result","user":"tidegate-1"})");
  EXPECT_EQ(json(written.get<RunOrder>()), written);
}

TEST(BrokerMessages, AMarkHasItsUserWhereItIsKnown) {
  RunMark mark;
  mark.id = "a";
  mark.log = "/state/a.log";
  mark.cgroup = "";
  mark.wrapper = 7;
  mark.leader = 8;
  mark.start_ticks = 9;
  mark.session_is_ours = true;
  const std::string common =
      R"({"cgroup":"","id":"a","leader":8,"log":"/state/a.log","session_is_ours":true,"start_ticks":9,)";
  EXPECT_EQ(json(mark).dump(), common + R"("wrapper":7})");
  EXPECT_EQ(json(mark).get<RunMark>().user, std::nullopt);
  mark.user = 1000;
  EXPECT_EQ(json(mark).dump(), common + R"("user":1000,"wrapper":7})");
  EXPECT_EQ(json(mark).get<RunMark>().user, uid_t{1000});
}

TEST(BrokerMessages, ASealListsTheUsers) {
  const ask::Seal seal{.token = "t", .wrapper = "/w", .users = {"a", "b"}, .owner = 1, .owner_group = 2};
  EXPECT_EQ(json(seal).dump(), R"({"owner":1,"owner_group":2,"token":"t","users":["a","b"],"wrapper":"/w"})");
  EXPECT_EQ(json(json(seal).get<ask::Seal>()), json(seal));
  const RunUser user{.name = "a", .uid = 1, .gid = 2, .groups = {3, 4}, .home = "/home/a"};
  EXPECT_EQ(json(user).dump(), R"({"gid":2,"groups":[3,4],"home":"/home/a","name":"a","uid":1})");
  EXPECT_EQ(json(user).get<RunUser>(), user);
}

TEST(BrokerMessages, AMissingFieldOrOneOfAnotherTypeThrows) {
  const json whole = RunLimits{.processes = 1, .open_files = 2, .file_bytes = 3, .memory_mib = 4};
  for (const auto& [key, value] : whole.items()) {
    json without = whole;
    without.erase(key);
    EXPECT_THROW(without.get<RunLimits>(), json::out_of_range) << key;
    json odd = whole;
    odd[key] = "1";
    EXPECT_THROW(odd.get<RunLimits>(), json::type_error) << key;
  }
  json more = whole;
  more["colour"] = "blue";
  EXPECT_EQ(json(more.get<RunLimits>()), whole);
}

}  // namespace
}  // namespace plugins::launchers
