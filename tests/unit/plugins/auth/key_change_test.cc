#include "plugins/auth/key_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/hex.h"
#include "plugins/auth/key_table.h"

namespace plugins::auth {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

KeySpec Search() {
  KeySpec spec;
  spec.tenant = "acme/search";
  spec.name = "crawler";
  return spec;
}

KeyTable TableOf(std::initializer_list<KeyRecord> records) {
  KeyTable::Map map;
  for (const KeyRecord& record : records) map[record.id] = std::make_shared<const KeyRecord>(record);
  return KeyTable(1, std::move(map));
}

Verdict::Kind Try(const KeyRecord& record, const std::string& secret, conf::TimePoint now) {
  return Check(TableOf({record}), secret, now).kind;
}

TEST(KeyChange, AKeyAndAllThatBelongsToItSurviveTheirStoredForm) {
  KeySpec spec = Search();
  spec.permissions = {{"chat-*"}, {"chat", "embeddings"}};
  spec.expires = kNow + 24h;
  spec.priority = "high";
  spec.limits = R"({"requests_per_minute":60})";
  spec.created_by = "ops";
  const KeyCreation made = *CreateKey(spec, kNow);
  KeyRecord ended = RotateKey(made.created, {.overlap = 1h}, kNow)->replaced;
  ended = RevokeKey(ended, {"ops"}, "leaked", kNow + 5min)->revoked;
  const absl::StatusOr<KeyRecord> record = DecodeKey(EncodeKey(ended));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->id, made.created.id);
  EXPECT_EQ(record->hash, Sha256(made.secret));
  EXPECT_EQ(record->tenant, "acme/search");
  EXPECT_EQ(record->name, "crawler");
  EXPECT_EQ(record->permissions, spec.permissions);
  EXPECT_EQ(record->expires, spec.expires);
  EXPECT_EQ(record->priority, "high");
  EXPECT_EQ(record->limits, spec.limits);
  EXPECT_EQ(record->created_by, "ops");
  EXPECT_EQ(record->created, kNow);
  EXPECT_EQ(record->role, Role::kNone);
  EXPECT_EQ(record->replaced_by, ended.replaced_by);
  EXPECT_EQ(record->overlap_until, kNow + 1h);
  EXPECT_EQ(record->revoked_at, kNow + 5min);
}

TEST(KeyRecord, ItsStoredTextIsTheSameInEveryRelease) {
  const std::string hash(64, 'a');
  const std::string key =
      R"({"id":"AAAAAAAAAA","hash":")" + hash +
      R"(","tenant":"acme/search","name":"crawler","models":["chat-*"],"endpoints":["chat","embeddings"],)"
      R"("created":"2026-11-20T08:30:00.000000Z","expires":"2026-11-21T08:30:00.000001Z","priority":"high",)"
      R"("limits":{"requests_per_minute":60},"created_by":"ops","owner":"person:ada",)"
      R"("rotated_from":"BBBBBBBBBB","revoked_at":"2026-11-20T08:35:00.000000Z","replaced_by":"CCCCCCCCCC",)"
      R"("overlap_until":"2026-11-20T09:30:00.000000Z"})";
  const absl::StatusOr<KeyRecord> record = DecodeKey(key);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(EncodeKey(*record), key);
  EXPECT_EQ(record->owner, "person:ada");
  EXPECT_EQ(record->rotated_from, "BBBBBBBBBB");
  EXPECT_EQ(record->limits, R"({"requests_per_minute":60})");
  const std::string admin = R"({"id":"AAAAAAAAAA","hash":")" + hash +
                            R"(","role":"operator","rights":["submit_jobs"],)"
                            R"("created":"2026-11-20T08:30:00.000000Z"})";
  const absl::StatusOr<KeyRecord> of_admin = DecodeKey(admin);
  ASSERT_TRUE(of_admin.ok()) << of_admin.status();
  EXPECT_EQ(EncodeKey(*of_admin), admin);
  EXPECT_EQ(of_admin->role, Role::kOperator);
  EXPECT_EQ(of_admin->rights, std::vector<Right>{Right::kSubmitJobs});
  const std::string rotated =
      R"({"kind":"rotated","at":"2026-11-20T08:30:00.000000Z","by":"ops","id":"BBBBBBBBBB",)"
      R"("overlap_until":"2026-11-20T09:30:00.000000Z","key":)" +
      admin + "}";
  const absl::StatusOr<KeyEvent> event = DecodeEvent(rotated);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(EncodeEvent(*event), rotated);
  const std::string revoked =
      R"({"kind":"revoked","at":"2026-11-20T08:30:00.000000Z","id":"BBBBBBBBBB","reason":"leaked"})";
  EXPECT_EQ(EncodeEvent(*DecodeEvent(revoked)), revoked);
}

TEST(KeyRecord, SaysWhichMemberIsWrong) {
  const std::string rest = R"("hash":")" + std::string(64, 'a') + R"(","created":"2026-11-20T08:30:00Z")";
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"{}", "key/"},
      {R"({"id":"short",)" + rest + R"(,"tenant":"acme"})", "key/id: must be 10 letters and digits"},
      {R"({"id":"AAAAAAAAAA","hash":"AA","created":"2026-11-20T08:30:00Z","tenant":"acme"})",
       "key/hash: must be 64 hex digits"},
      {R"({"id":"AAAAAAAAAA","tenant":"acme","hash":")" + std::string(64, 'a') + R"("})",
       "key/created: is missing"},
      {R"({"id":"AAAAAAAAAA",)" + rest + R"(,"tenant":1})", "key/tenant: must be a string"},
      {R"({"id":"AAAAAAAAAA",)" + rest + R"(,"role":"lead"})", "key/role: must be viewer, operator or admin"},
      {R"({"id":"AAAAAAAAAA",)" + rest + R"(,"role":"admin","rights":["fly"]})",
       "key/rights: has a right that this version does not know"},
      {R"({"id":"AAAAAAAAAA",)" + rest + R"(,"tenant":"acme","models":"chat"})",
       "key/models: must be a list"},
      {R"({"id":"AAAAAAAAAA",)" + rest + R"(,"tenant":"acme","models":[1]})",
       "key/models: must be a list of strings"},
      {R"({"id":"AAAAAAAAAA",)" + rest + R"(,"tenant":"acme","expires":"soon"})",
       "key/expires: must be an RFC 3339 time"},
      {R"({"id":"AAAAAAAAAA",)" + rest + "}", "key/tenant: an application key needs a tenant"},
  };
  for (const auto& c : cases) {
    const absl::Status refused = DecodeKey(c.text).status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << c.text;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(c.message));
  }
}

TEST(KeyChange, TheSecretIsNowhereButInTheAnswer) {
  const KeyCreation made = *CreateKey(Search(), kNow);
  const std::string hash = conf::Hex(Sha256(made.secret));
  const std::string secret_part = made.secret.substr(kApiKeyPrefix.size() + kKeyIdLength + 1);
  EXPECT_THAT(EncodeKey(made.created), AllOf(Not(HasSubstr(secret_part)), HasSubstr(hash)));
  EXPECT_THAT(EncodeEvent(made.event), Not(HasSubstr(secret_part)));
  EXPECT_THAT(Describe(made.event).dump(), Not(HasSubstr(hash)));
  const KeyTable table = TableOf({made.created});
  for (const conf::TimePoint now : {kNow, kNow + 1h}) {
    EXPECT_THAT(Check(table, made.secret, now).Message(), Not(HasSubstr(secret_part)));
  }
  std::string wrong = made.secret;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  EXPECT_THAT(Check(table, wrong, kNow).Message(), Not(HasSubstr(wrong.substr(20))));
  EXPECT_THAT(Check(table, "sk-" + secret_part, kNow).Message(), Not(HasSubstr(secret_part)));
}

TEST(KeyChange, ExpiryIsTheFirstMomentAtWhichAKeyNoLongerWorks) {
  KeySpec spec = Search();
  spec.expires = kNow + 60s;
  const KeyCreation made = *CreateKey(spec, kNow);
  EXPECT_EQ(Try(made.created, made.secret, kNow + 60s - 1ns), Verdict::Kind::kOk);
  EXPECT_EQ(Try(made.created, made.secret, kNow + 60s), Verdict::Kind::kExpired);
  EXPECT_THAT(Check(TableOf({made.created}), made.secret, kNow + 1h).Message(),
              HasSubstr("expired at 2026-11-20T08:31:00"));
}

TEST(KeyChange, ARotatedKeyWorksUntilItsOverlapEnds) {
  KeySpec spec = Search();
  spec.permissions.models = {"chat-*"};
  spec.limits = R"({"concurrency":4})";
  spec.expires = kNow + 10h;
  const KeyCreation old = *CreateKey(spec, kNow);
  const KeyRotation next = *RotateKey(old.created, {.overlap = 1h, .changer = {"ops"}}, kNow + 5h);
  EXPECT_EQ(Try(next.replaced, old.secret, kNow + 6h - 1ns), Verdict::Kind::kOk);
  EXPECT_EQ(Try(next.replaced, old.secret, kNow + 6h), Verdict::Kind::kReplaced);
  EXPECT_EQ(Try(next.created, next.secret, kNow + 6h), Verdict::Kind::kOk);
  EXPECT_EQ(next.replaced.replaced_by, next.created.id);
  EXPECT_EQ(next.created.rotated_from, old.created.id);
  EXPECT_EQ(next.created.tenant, old.created.tenant);
  EXPECT_EQ(next.created.permissions, old.created.permissions);
  EXPECT_EQ(next.created.limits, old.created.limits);
  EXPECT_EQ(next.created.created_by, "ops");
  EXPECT_EQ(next.created.expires, kNow + 15h) << "as long a life as the old one was given";
  EXPECT_THAT(Check(TableOf({next.replaced}), old.secret, kNow + 7h).Message(),
              HasSubstr("replaced by " + next.created.id));
}

TEST(KeyChange, AnOverlapDoesNotOutliveTheOldKeysOwnExpiry) {
  KeySpec spec = Search();
  spec.expires = kNow + 1h;
  const KeyCreation old = *CreateKey(spec, kNow);
  const KeyRecord replaced = RotateKey(old.created, {.overlap = 48h}, kNow)->replaced;
  EXPECT_EQ(Try(replaced, old.secret, kNow + 1h), Verdict::Kind::kExpired);
  EXPECT_EQ(replaced.EndsAt(), kNow + 1h);
}

TEST(KeyChange, WithoutOverlapTheOldKeyStopsAtOnce) {
  const KeyCreation old = *CreateKey(Search(), kNow);
  EXPECT_EQ(Try(RotateKey(old.created, {}, kNow)->replaced, old.secret, kNow), Verdict::Kind::kReplaced);
}

TEST(KeyChange, ARevokedKeyIsRefusedWhateverTheClockSays) {
  const KeyCreation made = *CreateKey(Search(), kNow);
  const KeyRecord revoked = RevokeKey(made.created, {"ops"}, "leaked", kNow + 1h)->revoked;
  for (const conf::TimePoint now : {kNow, kNow + 1h, kNow + 1000h}) {
    EXPECT_EQ(Try(revoked, made.secret, now), Verdict::Kind::kRevoked);
  }
}

TEST(KeyChange, ARotatedKeyMayStillBeRevokedAndThenStopsAtOnce) {
  const KeyCreation old = *CreateKey(Search(), kNow);
  const KeyRotation next = *RotateKey(old.created, {.overlap = 1h}, kNow);
  const KeyRecord revoked = RevokeKey(next.replaced, {"ops"}, "", kNow)->revoked;
  EXPECT_EQ(Try(revoked, old.secret, kNow), Verdict::Kind::kRevoked);
  EXPECT_EQ(Try(next.created, next.secret, kNow), Verdict::Kind::kOk);
}

TEST(KeyChange, RotatesUpToTheLastTimeThereIsAndRefusesWhatLiesBeyond) {
  KeySpec far = Search();
  far.expires = conf::TimePoint::max();
  const KeyCreation old = *CreateKey(far, kNow);
  const conf::Duration left = std::chrono::floor<std::chrono::microseconds>(conf::TimePoint::max()) - kNow;
  const auto too_long = RotateKey(old.created, {.overlap = left + 1us}, kNow);
  EXPECT_EQ(too_long.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_long.status().message()),
              testing::AllOf(HasSubstr("overlap: "), HasSubstr("beyond 2262-04-11T")));
  const auto too_far = RotateKey(old.created, {}, kNow + 1s);
  EXPECT_EQ(too_far.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_far.status().message()), HasSubstr("say when it expires"));

  const auto next = RotateKey(old.created, {.overlap = left}, kNow);
  ASSERT_TRUE(next.ok()) << next.status();
  for (const bool stored : {false, true}) {
    const KeyRecord replaced = stored ? *DecodeKey(EncodeKey(next->replaced)) : next->replaced;
    const KeyRecord created = stored ? *DecodeKey(EncodeKey(next->created)) : next->created;
    EXPECT_EQ(Try(replaced, old.secret, kNow + 24h * 365 * 200), Verdict::Kind::kOk);
    EXPECT_EQ(Try(created, next->secret, kNow + 24h * 365 * 200), Verdict::Kind::kOk);
  }
}

TEST(KeyChange, BelowTheRoleAdminNobodyChangesAnAdminKey) {
  KeySpec spec;
  spec.role = Role::kViewer;
  const KeyRecord admin = CreateKey(spec, kNow)->created;
  const KeyRecord application = CreateKey(Search(), kNow)->created;
  EXPECT_EQ(admin.tenant, "");
  const Changer op{"op", false};
  EXPECT_EQ(RotateKey(admin, {.changer = op}, kNow).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RevokeKey(admin, op, "", kNow).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(RotateKey(application, {.changer = op}, kNow).ok());
  EXPECT_TRUE(RevokeKey(application, op, "", kNow).ok());
  EXPECT_TRUE(RevokeKey(admin, {"root", true}, "", kNow).ok());
}

TEST(KeyChange, RefusesChangesThatMakeNoSense) {
  KeySpec expiring = Search();
  expiring.expires = kNow + 1h;
  const KeyRecord expired = CreateKey(expiring, kNow)->created;
  const KeyRecord fresh = CreateKey(Search(), kNow)->created;
  const KeyRecord revoked = RevokeKey(fresh, {""}, "", kNow)->revoked;
  const KeyRecord rotated = RotateKey(fresh, {.overlap = 1h}, kNow)->replaced;
  struct {
    const char* what;
    absl::Status status;
    absl::StatusCode code;
  } const cases[] = {
      {"rotate expired", RotateKey(expired, {}, kNow + 1h).status(), absl::StatusCode::kFailedPrecondition},
      {"rotate revoked", RotateKey(revoked, {}, kNow).status(), absl::StatusCode::kFailedPrecondition},
      {"rotate twice", RotateKey(rotated, {}, kNow).status(), absl::StatusCode::kFailedPrecondition},
      {"negative overlap", RotateKey(fresh, {.overlap = -1s}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"new key is past", RotateKey(fresh, {.expires = kNow}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"revoke twice", RevokeKey(revoked, {""}, "", kNow).status(), absl::StatusCode::kFailedPrecondition},
      {"reason is not UTF-8", RevokeKey(fresh, {""}, "\xff", kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"by has a newline", RotateKey(fresh, {.changer = {"a\nb"}}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"unknown", NoSuchKey("0000000000"), absl::StatusCode::kNotFound},
      {"no id", NoSuchKey("tg-0000000000-x"), absl::StatusCode::kInvalidArgument},
  };
  for (const auto& c : cases) EXPECT_EQ(c.status.code(), c.code) << c.what << ": " << c.status;
}

TEST(KeyChange, RefusesSpecsThatMakeNoSense) {
  struct {
    const char* field;
    void (*spoil)(KeySpec&);
  } const cases[] = {
      {"tenant", [](KeySpec& s) { s.tenant.clear(); }},
      {"tenant", [](KeySpec& s) { s.tenant = "acme/../other"; }},
      {"role", [](KeySpec& s) { s.role = Role::kAdmin; }},
      {"name", [](KeySpec& s) { s.name = "a\nb"; }},
      {"name", [](KeySpec& s) { s.name = std::string(257, 'x'); }},
      {"name", [](KeySpec& s) { s.name = "\xff"; }},
      {"priority", [](KeySpec& s) { s.priority = std::string("\0", 1); }},
      {"models", [](KeySpec& s) { s.permissions.models = {""}; }},
      {"endpoints", [](KeySpec& s) { s.permissions.endpoints = std::vector<std::string>(257, "x"); }},
      {"expires", [](KeySpec& s) { s.expires = kNow; }},
      {"limits", [](KeySpec& s) { s.limits = "60"; }},
      {"limits", [](KeySpec& s) { s.limits = R"({"a":1,"a":2})"; }},
  };
  for (const auto& c : cases) {
    KeySpec spec = Search();
    c.spoil(spec);
    const auto refused = CreateKey(spec, kNow);
    ASSERT_FALSE(refused.ok()) << c.field;
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), testing::StartsWith(std::string(c.field) + ":"));
  }
}

TEST(KeyChange, LimitsThatNestTooDeepToBeReadAgainAreRefused) {
  KeySpec spec = Search();
  spec.limits = R"({"a":[[[[[[[[[[[[[[]]]]]]]]]]]]]]})";
  EXPECT_EQ(CreateKey(spec, kNow).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KeyChange, EventsTellWhatHappenedToWhichKey) {
  const KeyCreation a = *CreateKey(Search(), kNow);
  const KeyRotation b = *RotateKey(a.created, {.overlap = 1h, .changer = {"ops"}}, kNow + 1s);
  const KeyRevocation c = *RevokeKey(b.created, {"root"}, "leaked", kNow + 2s);
  EXPECT_EQ(a.event.subject(), a.created.id);
  EXPECT_EQ(b.event.subject(), a.created.id);
  EXPECT_EQ(c.event.subject(), b.created.id);
  for (const KeyEvent& event : {a.event, b.event, c.event}) {
    const absl::StatusOr<KeyEvent> again = DecodeEvent(EncodeEvent(event));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->kind, event.kind);
    EXPECT_EQ(again->at, event.at);
    EXPECT_EQ(again->by, event.by);
    EXPECT_EQ(again->id, event.id);
    EXPECT_EQ(again->reason, event.reason);
    EXPECT_EQ(again->overlap_until, event.overlap_until);
    EXPECT_EQ(again->key.has_value(), event.key.has_value());
  }
  EXPECT_EQ(b.event.by, "ops");
  EXPECT_EQ(b.event.key->id, b.created.id);
  EXPECT_EQ(c.event.reason, "leaked");
}

TEST(KeyChange, WhatANewerVersionWroteIsNotHalfUnderstood) {
  const KeyCreation made = *CreateKey(Search(), kNow);
  const std::string key = EncodeKey(made.created);
  const std::string event = EncodeEvent(made.event);
  const auto with = [](std::string text, const std::string& member) {
    text.insert(text.size() - 1, "," + member);
    return text;
  };
  const auto unknown = DecodeKey(with(key, R"("only_from":"10.0.0.0/8")"));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("newer"));
  EXPECT_FALSE(DecodeEvent(with(event, R"("only_from":"10.0.0.0/8")")).ok());
  EXPECT_FALSE(DecodeKey(with(key, R"("id":"AAAAAAAAAA")")).ok()) << "a member twice";
  EXPECT_FALSE(DecodeKey(with(key, R"("replaced_by":"AAAAAAAAAA")")).ok()) << "without until when";
  EXPECT_FALSE(DecodeKey("{}").ok());
  EXPECT_FALSE(DecodeKey("").ok());
}

}  // namespace
}  // namespace plugins::auth
