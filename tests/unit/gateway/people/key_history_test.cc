// API keys put together again from what is left of a store and from the ledger.
#include "gateway/people/key_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/people/key_events.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/key_change.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;

const conf::TimePoint kNow = conf::FromUnixMicros(1'700'000'000'000'000);

auth::KeyCreation Make(const std::string& name) {
  auth::KeySpec spec;
  spec.tenant = "acme/search";
  spec.name = name;
  return *auth::CreateKey(spec, kNow);
}

ledger::Record RecordOf(const auth::KeyEvent& event) {
  const ledger::Event told = ToLedger(event);
  ledger::Record record;
  record.kind = told.kind;
  record.time_us = told.time_us;
  record.action = told.action;
  record.subject = told.subject;
  record.detail = told.detail;
  return record;
}

store::Object Stored(const auth::KeyRecord& key) {
  return {store::kKey, key.id, 1, auth::EncodeKey(key)};
}

TEST(KeyHistory, AKeyWithoutAHashIsReportedAsLostUnlessItHadEnded) {
  const auth::KeyCreation works = Make("app"), revoked = Make("old"), rotated = Make("turned");
  const auto revocation = auth::RevokeKey(revoked.created, {}, "leaked", kNow);
  const auto rotation = auth::RotateKey(rotated.created, {}, kNow);
  KeyHistory history;
  for (const auth::KeyEvent& event :
       {works.event, revoked.event, rotated.event, revocation->event, rotation->event})
    history.Take(RecordOf(event));
  const KeyHistory::Rebuilt rebuilt = history.Rebuild({}, kNow);
  EXPECT_TRUE(rebuilt.writes.empty());
  EXPECT_EQ(rebuilt.kept, 0u);
  std::vector<std::string> lost;
  for (const KeyHistory::Key& key : rebuilt.lost) lost.push_back(key.id);
  EXPECT_THAT(lost, testing::UnorderedElementsAre(works.created.id, rotation->created.id));
  EXPECT_EQ(rebuilt.lost.front().tenant, "acme/search");
}

TEST(KeyHistory, AKeyThatTheLedgerRevokedDoesNotComeBackWithAnOldPage) {
  const auth::KeyCreation key = Make("app"), other = Make("other");
  const auto revocation = auth::RevokeKey(key.created, {}, "leaked", kNow);
  KeyHistory history;
  for (const auth::KeyEvent& event : {key.event, revocation->event, other.event})
    history.Take(RecordOf(event));
  const store::Object damaged{store::kKey, "Ab3dE6gH9k", 7, "{\"id\":\"Ab3d"};
  const KeyHistory::Rebuilt rebuilt =
      history.Rebuild({Stored(key.created), Stored(other.created), damaged}, kNow);
  EXPECT_EQ(rebuilt.kept, 2u);
  EXPECT_TRUE(rebuilt.lost.empty());
  for (const store::Write& write : rebuilt.writes) {
    const auto read = auth::DecodeKey(*write.body);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->revoked_at.has_value(), read->id == key.created.id);
  }
}

TEST(KeyHistory, AChangeThatTheLedgerDoesNotHaveYetStaysOnItsWay) {
  const auth::KeyCreation key = Make("app");
  const store::Write pending = PendingEvent(key.event);
  const KeyHistory::Rebuilt rebuilt =
      KeyHistory().Rebuild({{pending.kind, pending.id, 2, *pending.body}, Stored(key.created)}, kNow);
  ASSERT_EQ(rebuilt.writes.size(), 2u);
  EXPECT_EQ(rebuilt.writes[0].kind, store::kKeyEvent);
}

}  // namespace
}  // namespace gateway
