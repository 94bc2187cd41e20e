// `tidegate state rebuild`: what it keeps of a store that can be read, and what it says about one that cannot.
#include "gateway/process/rebuild_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "gateway/config/load.h"
#include "gateway/config/state_files.h"
#include "gateway/control/learned/model_memory.h"
#include "gateway/ledger/ledger.h"
#include "gateway/net/clock.h"
#include "gateway/net/loop.h"
#include "gateway/people/key_events.h"
#include "gateway/process/ledger_options.h"
#include "gateway/store/kinds.h"
#include "gateway/store/sqlite_file.h"
#include "plugins/auth/key_change.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::RebuiltState;
using gateway::store::SqliteFile;
using gateway::store::Write;
using testing::ElementsAre;
using testing::IsEmpty;
namespace store = gateway::store;

class RebuildState : public testing::Test {
 protected:
  RebuildState() {
    std::filesystem::create_directories(folder_ / "state");
    std::ofstream(folder_ / "key") << std::string(40, 'k');
    const std::string text = fmt::format(
        "server: {{listen: 127.0.0.1:8080, state_dir: {0}/state}}\n"
        "admin: {{bootstrap_key: \"file:{0}/key\"}}\n"
        "tenants: [{{name: default, models: [\"*\"]}}]\n"
        "models: [{{name: chat, endpoints: [{{url: http://127.0.0.1:8000, engine: vllm}}]}}]\n",
        folder_.path());
    gateway::LoadResult loaded = gateway::ParseConfig(text, folder_ / "t.yaml");
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
    config_ = *std::move(loaded.config);
  }

  std::string path() const { return gateway::StorePath(config_.server.state_dir); }

  // A store that has these, and a key that nobody wrote.
  void Store(std::vector<Write> writes) {
    const auto file = SqliteFile::Open({.path = path()});
    ASSERT_TRUE(file.ok()) << file.status();
    writes.push_back(Write::Create(store::kKey, "Ab3", "{}"));
    ASSERT_TRUE((*file)->Commit(writes).ok());
  }
  static Write FirstAdmin() { return Write::Create(store::kFirstAdmin, store::kFirstAdminId, "{}"); }
  static Write Memory() {
    gateway::control::ModelMemory memory{.at = conf::TimePoint(std::chrono::seconds(1'600))};
    memory.cold_starts = {{"h100", std::chrono::seconds(46)}};
    return Write::Create(store::kModelMemory, "chat", BodyOf(memory));
  }
  void MakeUnreadable() { std::filesystem::resize_file(path(), 0); }

  void Record(gateway::ledger::Event event) {
    auto ledger = gateway::ledger::Ledger::Open(gateway::LedgerOptions(config_));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ASSERT_TRUE((*ledger)->Append(std::move(event)).ok());
    ASSERT_TRUE((*ledger)->Stop().ok());
  }

  RebuiltState Rebuild() {
    gateway::net::Loop loop([](const std::exception_ptr&) { ADD_FAILURE() << "an exception on the loop"; });
    auto rebuilt = gateway::RebuildState(loop, config_);
    loop.Stop();
    loop.Run();
    EXPECT_TRUE(rebuilt.ok()) << rebuilt.status();
    return rebuilt.ok() ? *std::move(rebuilt) : RebuiltState();
  }
  bool Has(const char* kind, const std::string& id) const {
    const auto file = SqliteFile::Open({.path = path()});
    const auto object = (*file)->Get(kind, id);
    return object.ok() && object->has_value();
  }
  bool BootstrapIsOff() const { return Has(store::kFirstAdmin, store::kFirstAdminId); }

  tests::TempDir folder_;
  gateway::Config config_;
};

TEST_F(RebuildState, KeepsThatThereWasAnAdminAndWhatScalingHasLearned) {
  Store({FirstAdmin(), Memory()});
  const RebuiltState rebuilt = Rebuild();
  EXPECT_TRUE(rebuilt.read_whole);
  EXPECT_TRUE(rebuilt.had_admin);
  EXPECT_TRUE(BootstrapIsOff());
  EXPECT_THAT(rebuilt.learned, ElementsAre("chat"));
  EXPECT_THAT(rebuilt.learned_anew, IsEmpty());
  EXPECT_TRUE(Has(store::kModelMemory, "chat"));
}

TEST_F(RebuildState, SaysThatTheBootstrapKeyWorksAgainAfterAnUnreadableStore) {
  Store({FirstAdmin(), Memory()});
  MakeUnreadable();
  const RebuiltState rebuilt = Rebuild();
  EXPECT_FALSE(rebuilt.read_whole);
  EXPECT_FALSE(rebuilt.had_admin);
  EXPECT_TRUE(rebuilt.bootstrap_works);
  EXPECT_FALSE(BootstrapIsOff());
  EXPECT_THAT(rebuilt.learned, IsEmpty());
  EXPECT_FALSE(Has(store::kModelMemory, "chat"));
}

TEST_F(RebuildState, TheLedgerShowsThatThereWasAnAdmin) {
  plugins::auth::KeySpec spec;
  spec.role = plugins::auth::Role::kAdmin;
  Record(gateway::ToLedger(plugins::auth::CreateKey(spec, gateway::net::Now())->event));
  Store({});
  MakeUnreadable();
  const RebuiltState rebuilt = Rebuild();
  EXPECT_TRUE(rebuilt.had_admin);
  EXPECT_FALSE(rebuilt.bootstrap_works);
  EXPECT_TRUE(BootstrapIsOff());
}

TEST_F(RebuildState, APersonWhoSignedInMayHaveBeenAnAdmin) {
  Record({.kind = gateway::ledger::Kind::kAdmin,
          .action = "session.begin",
          .actor = "person:a",
          .subject = "person:a"});
  Store({});
  MakeUnreadable();
  EXPECT_TRUE(Rebuild().had_admin);
  EXPECT_TRUE(BootstrapIsOff());
}

}  // namespace
