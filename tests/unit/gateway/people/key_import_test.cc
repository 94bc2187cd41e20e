// The keys of version 0.1, as its gateway left them, taken over into the store.
#include "gateway/people/key_import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "conf/hex.h"
#include "gateway/people/keys.h"
#include "gateway/process/open_state.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/digest.h"
#include "tests/support/kill_at_syscall.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::TempDir;
using tests::TestLoop;

const auth::NewKey kFirst = {"AAAAAAAAAA", "tg-AAAAAAAAAA-0000000000000000000000000000000000000000000"};
const auth::NewKey kNext = {"BBBBBBBBBB", "tg-BBBBBBBBBB-1111111111111111111111111111111111111111111"};

// A line of the old file: the object, and over its text the begin of a SHA-256.
std::string Line(const std::string& object) {
  const std::string body = object.substr(0, object.size() - 1);
  return fmt::format("{},\"sum\":\"{}\"}}\n", body, conf::Hex(auth::Sha256(body)).substr(0, 16));
}

std::string Created(int event, const auth::NewKey& key) {
  return Line(fmt::format(
      R"({{"event":{},"kind":"created","at":"2026-01-01T00:00:00Z","by":"ops","key":{{"id":"{}","hash":"{}","tenant":"acme","created":"2026-01-01T00:00:00Z","created_by":"ops"}}}})",
      event, key.id, conf::Hex(auth::Sha256(key.secret))));
}

std::string Rotated(int event, const auth::NewKey& old, const auth::NewKey& key) {
  return Line(fmt::format(
      R"({{"event":{},"kind":"rotated","at":"2026-01-02T00:00:00Z","id":"{}","overlap_until":"2026-01-03T00:00:00Z","key":{{"id":"{}","hash":"{}","tenant":"acme","created":"2026-01-02T00:00:00Z","rotated_from":"{}"}}}})",
      event, old.id, key.id, conf::Hex(auth::Sha256(key.secret)), old.id));
}

std::string Revoked(int event, const auth::NewKey& key) {
  return Line(fmt::format(
      R"({{"event":{},"kind":"revoked","at":"2026-01-04T00:00:00Z","by":"ops","id":"{}","reason":"leaked"}})",
      event, key.id));
}

std::string TailMoved(int event) {
  return Line(fmt::format(R"({{"event":{},"kind":"tail_moved","at":"2026-01-01T00:00:00Z","reason":"torn"}})",
                          event));
}

void Put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// What there is after a start, or why there is none.
struct Outcome {
  absl::Status status;
  std::vector<std::string> working;
  std::vector<std::string> pending;
  std::string position;
};

Outcome Open(const std::string& folder) {
  Outcome outcome;
  TestLoop loop([](const std::exception_ptr&) { ADD_FAILURE(); });
  auto opened = OpenState(loop, folder);
  outcome.status = opened.status();
  if (!opened.ok()) return outcome;
  Keys keys(loop, **opened);
  outcome.status = net::Await(loop, keys.Start());
  for (const auth::NewKey& key : {kFirst, kNext}) {
    if (Check(*keys.Table(), key.secret, net::Now()).ok()) outcome.working.push_back(key.id);
  }
  const auto events = net::Await(loop, (*opened)->List(store::kKeyEvent));
  for (const store::Object& event : events->objects) {
    outcome.pending.push_back(event.id);
  }
  const auto position = net::Await(loop, (*opened)->Get(store::kPosition, "key_events"));
  if (position.ok() && *position) outcome.position = (*position)->body;
  keys.Stop();
  loop.Stop();
  loop.Run();
  return outcome;
}

TEST(KeyImport, KeysAndTheEventsThatTheLedgerLacksAreTakenOverOnce) {
  const TempDir dir;
  Put(dir / "keys.jsonl", Created(1, kFirst) + TailMoved(2) + Rotated(3, kFirst, kNext) + Revoked(4, kFirst) +
                              "{\"event\":5,\"kin");
  Put(dir / "key_events.json", "{\"event\":1,\"ledger_seq\":77}\n");
  for (int start = 0; start < 2; ++start) {
    const Outcome outcome = Open(dir.path());
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.working, ElementsAre(kNext.id));
    EXPECT_THAT(outcome.pending, ElementsAre(kFirst.id + ".revoked", kFirst.id + ".rotated"));
    EXPECT_EQ(outcome.position, "{\"ledger_seq\":77}");
    EXPECT_FALSE(std::filesystem::exists(dir / "keys.jsonl"));
    EXPECT_TRUE(std::filesystem::exists(dir / "keys.jsonl.imported-0.1"));
    EXPECT_TRUE(std::filesystem::exists(dir / "key_events.json.imported-0.1"));
  }
}

TEST(KeyImport, ANewStateFolderImportsNothing) {
  const TempDir dir;
  const Outcome outcome = Open(dir / "new");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.working, IsEmpty());
  EXPECT_EQ(outcome.position, "");
}

TEST(KeyImport, DamageStopsTheStartNamesThePlaceAndChangesNothing) {
  const std::string first = Created(1, kFirst);
  std::string changed = first;
  changed[changed.find("acme")] = 'x';
  const std::string damaged[] = {
      changed + Revoked(2, kFirst),  // against its checksum
      first + Revoked(3, kFirst),    // a line is missing
      first + Revoked(2, kNext),     // of a key that there is not
      first + Created(2, kFirst),    // twice
      first + Line(R"({"event":2,"kind":"narrowed","at":"2026-01-01T00:00:00Z"})"),
  };
  for (const std::string& text : damaged) {
    const TempDir dir;
    Put(dir / "keys.jsonl", text);
    const Outcome outcome = Open(dir.path());
    EXPECT_TRUE(absl::IsDataLoss(outcome.status)) << outcome.status;
    EXPECT_THAT(std::string(outcome.status.message()),
                AllOf(HasSubstr(dir / "keys.jsonl"), HasSubstr("at byte"), HasSubstr("restore")));
    EXPECT_TRUE(std::filesystem::exists(dir / "keys.jsonl"));
    Put(dir / "keys.jsonl", first);
    EXPECT_THAT(Open(dir.path()).working, ElementsAre(kFirst.id)) << "it can be mended";
  }
}

TEST(KeyImport, AFileThatAnOlderGatewayWroteAfterTheImportIsNotPassedOverInSilence) {
  const TempDir dir;
  Put(dir / "keys.jsonl", Created(1, kFirst));
  ASSERT_TRUE(Open(dir.path()).status.ok());
  Put(dir / "keys.jsonl", "");  // it started, and made no key
  EXPECT_TRUE(Open(dir.path()).status.ok());
  EXPECT_EQ(std::filesystem::file_size(dir / "keys.jsonl.imported-0.1"), Created(1, kFirst).size());
  Put(dir / "keys.jsonl", Created(1, kNext));
  const Outcome outcome = Open(dir.path());
  EXPECT_TRUE(absl::IsFailedPrecondition(outcome.status)) << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()),
              AllOf(HasSubstr("keys.jsonl"), HasSubstr("older gateway")));
}

TEST(KeyImport, AKillBeforeAnySystemCallIsRepeatedWithoutHarm) {
  std::optional<TempDir> dir;
  const bool traced = tests::KillAtSyscall::Run(
      {.prepare =
           [&] {
             dir.emplace();
             Put(*dir / "keys.jsonl", Created(1, kFirst) + Rotated(2, kFirst, kNext));
             Put(*dir / "key_events.json", "{\"event\":1,\"ledger_seq\":7}\n");
           },
       .work =
           [&](int) {
             TestLoop loop([](const std::exception_ptr&) { _exit(1); });
             if (!OpenState(loop, dir->path()).ok()) _exit(2);
           },
       .check =
           [&](const std::string&) {
             const Outcome outcome = Open(dir->path());
             ASSERT_TRUE(outcome.status.ok()) << outcome.status;
             EXPECT_THAT(outcome.working, ElementsAre(kNext.id));
             EXPECT_THAT(outcome.pending, ElementsAre(kFirst.id + ".rotated"));
             EXPECT_EQ(outcome.position, "{\"ledger_seq\":7}");
             EXPECT_FALSE(std::filesystem::exists(*dir / "keys.jsonl"));
           }});
  if (!traced) GTEST_SKIP() << "needs the right to trace a child";
}

}  // namespace
}  // namespace gateway
