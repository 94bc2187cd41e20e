#include "gateway/process/upgrade_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gateway/config/load.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/segment.h"
#include "gateway/store/sqlite_file.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::UpgradeFinding;
using gateway::UpgradeReport;
using testing::HasSubstr;
using Effect = UpgradeFinding::Effect;

class UpgradeCheck : public testing::Test {
 protected:
  std::string state() const { return folder_ / "state"; }

  gateway::Config Load() const {
    const std::string text = fmt::format(
        "server: {{listen: 127.0.0.1:8080, state_dir: {}}}\n"
        "tenants: [{{name: default, models: [\"*\"]}}]\n"
        "models: [{{name: m, endpoints: [{{url: http://127.0.0.1:8000, engine: vllm}}]}}]\n",
        state());
    gateway::LoadResult loaded = gateway::ParseConfig(text, "t.yaml");
    EXPECT_TRUE(loaded.config);
    return *std::move(loaded.config);
  }

  UpgradeReport Check() const { return gateway::CheckUpgrade(Load(), gateway::SystemSources()); }

  void MakeStore() const {
    std::filesystem::create_directories(state());
    ASSERT_TRUE(gateway::store::SqliteFile::Open({.path = gateway::StorePath(state())}).ok());
  }

  void SetSchema(int64_t schema) const {
    const auto db =
        gateway::sqlite::Database::Open(gateway::StorePath(state()), gateway::sqlite::Database::Sync::kFull);
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->Execute(fmt::format("PRAGMA user_version = {}", schema)).ok());
  }

  void AddSegment(uint64_t first_seq, std::initializer_list<std::string> bodies) const {
    std::filesystem::create_directories(gateway::LedgerDir(state()));
    std::string text;
    gateway::ledger::Digest link{};
    uint64_t seq = first_seq;
    for (const std::string& body : bodies) {
      const size_t begin = text.size();
      text += fmt::format(R"({{"seq":{},"time_us":1,{})", seq++, body);
      link = gateway::ledger::FinishLine(&text, begin, link);
    }
    std::ofstream(gateway::ledger::SegmentPath(gateway::LedgerDir(state()), first_seq)) << text;
  }

  // The finding of a part; fails when there is none.
  static UpgradeFinding Of(const UpgradeReport& report, const std::string& part) {
    for (const UpgradeFinding& finding : report.findings) {
      if (finding.part == part) return finding;
    }
    ADD_FAILURE() << "nothing about " << part;
    return {};
  }

  tests::TempDir folder_;
};

TEST_F(UpgradeCheck, AFolderWithoutStateHasNothingToCheck) {
  std::filesystem::create_directories(state());
  const UpgradeReport report = Check();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].effect, Effect::kKept);
  EXPECT_THAT(report.findings[0].message, HasSubstr("holds no state yet: there is nothing to check"));
}

TEST_F(UpgradeCheck, AFolderThatDoesNotExistHasNothingToUpgrade) {
  const UpgradeReport report = Check();
  EXPECT_EQ(Of(report, "state_dir").effect, Effect::kKept);
  EXPECT_FALSE(std::filesystem::exists(state())) << "it changes nothing";
}

TEST_F(UpgradeCheck, AStoreOfThisVersionIsKept) {
  MakeStore();
  EXPECT_EQ(Of(Check(), "store").effect, Effect::kKept);
}

TEST_F(UpgradeCheck, AStoreOfALaterVersionIsRefusedAndNotChanged) {
  MakeStore();
  SetSchema(gateway::store::kSqliteSchema + 1);
  const UpgradeReport report = Check();
  EXPECT_EQ(Of(report, "store").effect, Effect::kRefused);
  EXPECT_TRUE(report.Has(Effect::kRefused));
  const auto schema = gateway::store::SqliteFile::SchemaOf(gateway::StorePath(state()));
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(*schema, gateway::store::kSqliteSchema + 1);
}

TEST_F(UpgradeCheck, ALostStoreIsRefused) {
  AddSegment(1, {R"("kind":"segment","format":1)"});
  EXPECT_THAT(Of(Check(), "store").message, HasSubstr("tidegate state rebuild"));
}

TEST_F(UpgradeCheck, TheLastStartTellsTheVersion) {
  MakeStore();
  AddSegment(1, {R"("kind":"segment","format":1)", R"("kind":"start","subject":"0.0.9")",
                 R"("kind":"start","subject":"0.1.0")"});
  AddSegment(4, {R"("kind":"segment","format":1)"});
  const UpgradeReport report = Check();
  EXPECT_EQ(report.from, "0.1.0");
  EXPECT_EQ(Of(report, "ledger").effect, Effect::kKept);
}

TEST_F(UpgradeCheck, ALedgerOfALaterFormatIsRefused) {
  MakeStore();
  AddSegment(1, {R"("kind":"segment","format":2)", R"("kind":"start","subject":"99.0.0")"});
  const UpgradeReport report = Check();
  EXPECT_EQ(Of(report, "ledger").effect, Effect::kRefused);
  EXPECT_THAT(Of(report, "version").message, HasSubstr("99.0.0"));
}

TEST_F(UpgradeCheck, AJournalThatThisVersionCannotReadIsRefused) {
  MakeStore();
  AddSegment(1, {R"("kind":"segment","format":1)"});
  std::ofstream(gateway::LedgerDir(state()) + "/journal-0") << std::string(8192, 'x');
  EXPECT_EQ(Of(Check(), "journals").effect, Effect::kRefused);
}

TEST_F(UpgradeCheck, FilesOfVersionsWithoutAStoreAreTakenOver) {
  std::filesystem::create_directories(state());
  std::ofstream(state() + "/jobs.jsonl") << "";
  EXPECT_EQ(Of(Check(), "store").effect, Effect::kChanged);
}

TEST_F(UpgradeCheck, AConfigurationThatWasNeverAppliedIsNamed) {
  MakeStore();
  std::ofstream(state() + "/config.applied.yaml")
      << "server: {listen: 127.0.0.1:8081}\ntenants: [{name: default, models: [\"*\"]}]\n"
         "models: [{name: m, endpoints: [{url: http://127.0.0.1:8000, engine: vllm}]}]\n";
  EXPECT_EQ(Of(Check(), "configuration").effect, Effect::kChanged);
}

TEST(Versions, AreComparedAsNumbers) {
  EXPECT_TRUE(gateway::IsOlderVersion("0.9.0", "0.10.0"));
  EXPECT_TRUE(gateway::IsOlderVersion("1", "1.0.1"));
  EXPECT_FALSE(gateway::IsOlderVersion("1.0", "1.0.0"));
  EXPECT_FALSE(gateway::IsOlderVersion("2.0.0", "1.9.9"));
}

}  // namespace
