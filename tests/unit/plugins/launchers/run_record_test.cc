#include "plugins/launchers/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace plugins::launchers {
namespace {

using testing::HasSubstr;

RunRecord Full() {
  return {.id = "a",
          .owner = "chat",
          .tenant = "acme",
          .grant = {.node = "here",
                    .kind = "h100",
                    .devices = {1, 7},
                    .milli = 500,
                    .partition = "1g.10gb",
                    .partition_start = 3,
                    .cpu_milli = 4'000,
                    .memory_mib = 65'536},
          .command = {"vllm", "serve", "{port}", "\"quoted\""},
          .env_names = {"HF_TOKEN"},
          .directory = "/srv",
          .serves = true,
          .port = 20'001,
          .boot = "b",
          .pid = 4'194'303,
          .start_ticks = 1ULL << 60,
          .cgroup = "/sys/fs/cgroup/tidegate/a",
          .state = RunState::kStopping,
          .since = conf::FromUnixMicros(1'800'000'000'000'001),
          .kill_at = conf::FromUnixMicros(1'800'000'000'000'002),
          .asked = true,
          .exit_code = 3,
          .why = "because",
          .started = conf::FromUnixMicros(1'800'000'000'000'000),
          .ended = conf::FromUnixMicros(1'800'000'000'000'003),
          .witness = Witness::kWrapper};
}

TEST(RunRecord, IsReadAsItWasWritten) {
  const std::string text = WriteRecord(Full());
  const absl::StatusOr<RunRecord> read = ReadRecord(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(WriteRecord(*read), text);
  EXPECT_EQ(read->grant.devices, Full().grant.devices);
  EXPECT_EQ(read->start_ticks, Full().start_ticks);
  EXPECT_EQ(read->state, RunState::kStopping);
  EXPECT_EQ(read->kill_at, Full().kill_at);
  EXPECT_EQ(read->exit_code, 3);
  EXPECT_EQ(read->signal, std::nullopt);
  EXPECT_EQ(read->ended, Full().ended);
  EXPECT_EQ(read->witness, Witness::kWrapper);
  EXPECT_EQ(WriteRecord(*ReadRecord(WriteRecord(Full(), RecordLayout::kLine))), text);
}

TEST(RunRecord, ItsTextIsTheSameInEveryRelease) {
  const std::string text =
      R"({"version":2,"id":"a","owner":"chat","tenant":"acme","node":"here","kind":"h100","devices":[1,7],)"
      R"("milli":500,"partition":"1g.10gb","partition_start":3,"cpu_milli":4000,"memory_mib":65536,)"
      R"("command":["vllm","serve","{port}","\"quoted\""],"env_names":["HF_TOKEN"],"directory":"/srv",)"
      R"("user":"","serves":true,"port":20001,"boot":"b","pid":4194303,"start_ticks":1152921504606846976,)"
      R"("wrapped":true,"cgroup":"/sys/fs/cgroup/tidegate/a","state":"stopping","since":1800000000000001,)"
      R"("kill_at":1800000000000002,"asked":true,"exit_code":3,"signal":null,"why":"because",)"
      R"("started":1800000000000000,"ended":1800000000000003,"witness":"wrapper"})";
  EXPECT_EQ(WriteRecord(Full(), RecordLayout::kLine), text);
  EXPECT_EQ(WriteRecord(Full()), nlohmann::ordered_json::parse(text).dump(2) + "\n");
  EXPECT_EQ(WriteRecord(*ReadRecord(text), RecordLayout::kLine), text);
}

TEST(RunRecord, MembersThatItDoesNotKnowArePassedOver) {
  auto newer = nlohmann::ordered_json::parse(WriteRecord(Full()));
  newer["colour"] = "blue";
  const absl::StatusOr<RunRecord> read = ReadRecord(newer.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(WriteRecord(*read), WriteRecord(Full()));
}

TEST(RunRecord, OneOfTheVersionWithoutWrappersIsRead) {
  auto old = nlohmann::ordered_json::parse(WriteRecord(Full()));
  old["version"] = 1;
  for (const char* const key : {"wrapped", "cgroup", "user", "started", "ended", "witness"}) old.erase(key);
  const absl::StatusOr<RunRecord> read = ReadRecord(old.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->wrapped);
  EXPECT_EQ(read->pid, Full().pid);
}

TEST(RunRecord, EveryFieldHasToBeThereAndOfItsType) {
  const auto whole = nlohmann::ordered_json::parse(WriteRecord(Full()));
  for (const auto& [key, value] : whole.items()) {
    nlohmann::ordered_json without = whole;
    without.erase(key);
    const absl::Status missing = ReadRecord(without.dump()).status();
    EXPECT_THAT(std::string(missing.message()), HasSubstr(key + " is missing"));
    nlohmann::ordered_json odd = whole;
    odd[key] = nlohmann::ordered_json::object();
    const absl::Status refused = ReadRecord(odd.dump()).status();
    EXPECT_THAT(std::string(refused.message()), HasSubstr(key));
  }
  for (const char* const text : {R"({"version": 3})", R"({"version": -1})", "3", "", "{"})
    EXPECT_FALSE(ReadRecord(text).ok()) << text;
  auto range = whole;
  range["port"] = 65'536;
  EXPECT_FALSE(ReadRecord(range.dump()).ok());
}

}  // namespace
}  // namespace plugins::launchers
