#include "gateway/audit/merged_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway {
namespace {

using testing::ElementsAre;

void Write(const std::string& dir, const std::vector<std::pair<int64_t, std::string>>& events) {
  const std::unique_ptr<ledger::Ledger> ledger = ledger::MustOpen(ledger::SmallOptions(dir));
  for (const auto& [time_us, action] : events) {
    ledger::Event event;
    event.kind = ledger::Kind::kAction;
    event.time_us = time_us;
    event.action = action;
    EXPECT_TRUE(ledger->Append(event).ok());
  }
  EXPECT_TRUE(ledger->Stop().ok());
}

TEST(MergedExport, PutsTheRecordsOfSeveralLedgersInTheOrderOfTime) {
  const ledger::TempDir folder;
  const std::string a = folder.Sub("a");
  const std::string b = folder.Sub("b");
  constexpr int64_t kBegin = 1'763'676'000'000'000;
  Write(a, {{kBegin + 1, "a1"}, {kBegin + 4, "a4"}});
  Write(b, {{kBegin + 2, "b2"}, {kBegin + 3, "b3"}});
  std::vector<std::string> actions;
  std::vector<std::string> proven;
  ledger::ExportOptions wanted;
  wanted.kinds = {ledger::Kind::kAction};
  const absl::StatusOr<uint64_t> records = ExportMerged({a, b}, wanted, [&](std::string_view line) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("record")) {
      actions.push_back(json["record"]["action"].get<std::string>());
      EXPECT_EQ(json["ledger"], actions.back().starts_with('a') ? a : b);
    } else {
      proven.push_back(json["ledger"].get<std::string>());
      EXPECT_EQ(json["records"], 2);
      EXPECT_TRUE(json["checkpoint"].is_object()) << line;
    }
    return true;
  });
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, 4u);
  EXPECT_THAT(actions, ElementsAre("a1", "b2", "b3", "a4"));
  EXPECT_THAT(proven, ElementsAre(a, b));
}

TEST(MergedExport, StopsWhereItsReaderDoes) {
  const ledger::TempDir folder;
  Write(folder.Sub("a"), {{1'763'676'000'000'001, "a1"}});
  int lines = 0;
  EXPECT_TRUE(ExportMerged({folder.Sub("a")}, {}, [&](std::string_view) { return ++lines < 1; }).ok());
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace gateway
