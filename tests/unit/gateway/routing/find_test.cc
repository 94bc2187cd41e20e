#include "gateway/routing/find.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace gateway::routing {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

std::string LineOf(int number, size_t padding = 0) {
  return fmt::format(
      R"({{"kind":"route","request":"req_{}","time":"2027-01-01T00:00:{:02}Z","model":"m","picks":[],)"
      R"("more":"{}"}})",
      number, number % 60, std::string(padding, 'x'));
}

std::string Found(const std::string& path, std::string_view request) {
  const auto found = FindRequest(path, request);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() && *found ? (*found)->request : "";
}

TEST(RoutingLog, ARequestIsFoundWhereverItsLineIs) {
  const tests::TempDir dir;
  const std::string path = dir / "routing.jsonl";
  {
    std::ofstream out(path);
    // Lines that cross the blocks in which the file is read, and one that is longer than a block.
    for (int i = 0; i < 50; ++i) out << LineOf(i, i == 25 ? 3'000'000 : 60'000) << '\n';
    out << R"({"kind":"rou)";  // cut by a crash
  }
  for (const int number : {0, 1, 24, 25, 26, 49}) {
    const std::string request = fmt::format("req_{}", number);
    EXPECT_EQ(Found(path, request), request);
  }
  EXPECT_EQ(Found(path, ""), "req_49") << "the last one that can be read";
  EXPECT_EQ(Found(path, "req_50"), "");
  EXPECT_EQ(Found(path, "req_"), "") << "a part of an id";
}

TEST(RoutingLog, AnEmptyFileHasNoRequestAndAMissingOneIsAnError) {
  const tests::TempDir dir;
  std::ofstream(dir / "empty.jsonl");
  EXPECT_EQ(Found(dir / "empty.jsonl", ""), "");
  EXPECT_FALSE(FindRequest(dir / "missing.jsonl", "").ok());
}

TEST(RoutingLog, PathsAreThoseOfExistingFilesTheNewestFirst) {
  const tests::TempDir dir;
  EXPECT_THAT(LogPaths(dir.path(), 3), ElementsAre(EndsWith("/routing.jsonl")));
  std::ofstream(dir / "routing.jsonl");
  std::ofstream(dir / "routing.2.jsonl");
  EXPECT_THAT(LogPaths(dir.path(), 3), ElementsAre(EndsWith("/routing.jsonl"), EndsWith("/routing.2.jsonl")));
}

}  // namespace
}  // namespace gateway::routing
