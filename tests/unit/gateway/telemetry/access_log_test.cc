// The access log: the form of a line, whatever a client sent, and what happens when it cannot be written.
#include "gateway/telemetry/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "gateway/net/clock.h"
#include "tests/support/temp_dir.h"

namespace gateway::telemetry {
namespace {

using testing::HasSubstr;
using testing::Not;

AccessRecord Logged(std::string id) {
  AccessRecord record;
  record.ended = conf::FromUnixMicros(1'800'000'000'000'000);
  record.request_id = std::move(id);
  record.tenant = "demo";
  record.status = 200;
  record.reason = "done";
  record.output_tokens = 12;
  record.queued = std::chrono::microseconds(1500);
  record.total = std::chrono::milliseconds(250);
  return record;
}

std::string ReadWhole(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// What the log's thread does soon.
template <class Condition>
bool SoonLogged(Condition condition) {
  const conf::TimePoint until = net::Now() + std::chrono::seconds(10);
  while (!condition() && net::Now() < until) std::this_thread::yield();
  return condition();
}

TEST(AccessLog, ALineNamesItsUnitsAndLeavesOutWhatIsNotKnown) {
  const auto line = nlohmann::json::parse(RenderAccess(Logged("r-1")));
  EXPECT_EQ(line["request_id"], "r-1");
  EXPECT_EQ(line["event"], "access");
  EXPECT_EQ(line["queue_ms"], 1.5);
  EXPECT_EQ(line["total_ms"], 250.0);
  EXPECT_EQ(line["output_tokens"], 12);
  EXPECT_FALSE(line.contains("first_token_ms"));
  EXPECT_FALSE(line.contains("trace_id"));
  EXPECT_FALSE(line.contains("code"));
}

TEST(AccessLog, WhatAClientSentCannotBeginALineOrEndAString) {
  AccessRecord record = Logged("r-1");
  record.client_request_id = "a\"},\n{\"event\":\"forged\"\r\x1b[31m";
  record.model = "bad\xff\xfe\x00utf8";
  const std::string line = RenderAccess(record);
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  const auto parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["client_request_id"], record.client_request_id);
  EXPECT_EQ(parsed["event"], "access");
}

TEST(AccessLog, ASampleIsTheSameForOneIdAndAboutAsLargeAsAskedFor) {
  EXPECT_TRUE(IsLogged("any", 1));
  EXPECT_FALSE(IsLogged("any", 0));
  int logged = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = "req-" + std::to_string(i);
    logged += IsLogged(id, 0.25) ? 1 : 0;
    EXPECT_EQ(IsLogged(id, 0.25), IsLogged(id, 0.25));
    if (IsLogged(id, 0.25)) {
      EXPECT_TRUE(IsLogged(id, 0.5)) << id;
    }
  }
  EXPECT_NEAR(logged, 1000, 120);
}

TEST(AccessLog, WritesLinesAndReopensTheFileAfterARotation) {
  tests::TempDir dir;
  const std::string path = dir / "access.log";
  AccessLog log;
  log.Configure(path);
  log.Add(Logged("r-1"));
  ASSERT_TRUE(SoonLogged([&] { return log.stats().written == 1; }));
  std::filesystem::rename(path, path + ".1");
  log.Add(Logged("r-2"));
  ASSERT_TRUE(SoonLogged([&] { return log.stats().written == 2; }));
  log.Reopen();
  log.Add(Logged("r-3"));
  ASSERT_TRUE(SoonLogged([&] { return log.stats().written == 3; }));
  EXPECT_THAT(ReadWhole(path + ".1"), HasSubstr("r-2"));
  EXPECT_THAT(ReadWhole(path), HasSubstr("r-3"));
  EXPECT_THAT(ReadWhole(path), Not(HasSubstr("r-2")));
}

TEST(AccessLog, LinesThatCannotBeWrittenAreCountedAndLaterOnesAreWritten) {
  tests::TempDir dir;
  AccessLog log;
  log.Configure(dir / "missing/access.log");
  log.Add(Logged("r-1"));
  ASSERT_TRUE(SoonLogged([&] { return log.stats().dropped_write == 1; }));
  std::filesystem::create_directory(dir / "missing");
  log.Add(Logged("r-2"));
  ASSERT_TRUE(SoonLogged([&] { return log.stats().written == 1; }));
  EXPECT_THAT(ReadWhole(dir / "missing/access.log"), HasSubstr("r-2"));
}

TEST(AccessLog, ARecordThatDoesNotFitIntoTheQueueIsCounted) {
  tests::TempDir dir;
  AccessLog log;
  log.Configure(dir / "access.log");
  AccessRecord large = Logged("r-1");
  large.model.assign(AccessLog::kMaxQueuedBytes, 'm');
  log.Add(std::move(large));
  EXPECT_EQ(log.stats().dropped_queue, 1u);
}

TEST(AccessLog, ItsEndWritesWhatIsQueued) {
  tests::TempDir dir;
  {
    AccessLog log;
    log.Configure(dir / "access.log");
    for (int i = 0; i < 100; ++i) log.Add(Logged("r-" + std::to_string(i)));
  }
  EXPECT_EQ(std::ranges::count(ReadWhole(dir / "access.log"), '\n'), 100);
}

}  // namespace
}  // namespace gateway::telemetry
