#include "plugins/auth/key_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "tests/unit/plugins/auth/temp_dir.h"

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

std::unique_ptr<KeyStore> OpenStore(const std::string& path) {
  auto store = KeyStore::Open(path, kNow);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

Verdict::Kind Try(const KeyStore& store, const std::string& secret, conf::TimePoint now) {
  const auto table = store.Table();
  return Check(*table, secret, now).kind;
}

TEST(KeyStore, AKeyAndAllThatBelongsToItSurviveReopening) {
  const TempDir dir;
  KeySpec spec = Search();
  spec.permissions = {{"chat-*"}, {"chat", "embeddings"}};
  spec.expires = kNow + 24h;
  spec.priority = "high";
  spec.limits = R"({"requests_per_minute":60})";
  spec.created_by = "ops";
  const NewKey key = *OpenStore(dir / "keys.jsonl")->Create(spec, kNow);

  const auto store = OpenStore(dir / "keys.jsonl");
  const auto table = store->Table();
  const Verdict verdict = Check(*table, key.secret, kNow);
  ASSERT_TRUE(verdict.ok());
  const KeyRecord& record = *verdict.record;
  EXPECT_EQ(record.id, key.id);
  EXPECT_EQ(record.tenant, "acme/search");
  EXPECT_EQ(record.name, "crawler");
  EXPECT_EQ(record.permissions, spec.permissions);
  EXPECT_EQ(record.expires, spec.expires);
  EXPECT_EQ(record.priority, "high");
  EXPECT_EQ(record.limits, spec.limits);
  EXPECT_EQ(record.created_by, "ops");
  EXPECT_EQ(record.created, kNow);
  EXPECT_EQ(record.role, Role::kNone);
}

TEST(KeyStore, TheSecretIsNowhereButInTheAnswer) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey key = *store->Create(Search(), kNow);
  const std::string secret_part = key.secret.substr(kApiKeyPrefix.size() + kKeyIdLength + 1);
  EXPECT_THAT(ReadWhole(dir / "keys.jsonl"), Not(HasSubstr(secret_part)));
  EXPECT_THAT(ReadWhole(dir / "keys.jsonl"), HasSubstr(ToHex(Sha256(key.secret))));
  EXPECT_THAT(Describe(*store->List()[0]).dump(), Not(HasSubstr(ToHex(Sha256(key.secret)))));
  EXPECT_THAT(Describe(store->EventsSince(0, 10)->at(0)).dump(), Not(HasSubstr(ToHex(Sha256(key.secret)))));
  const auto table = store->Table();
  for (const conf::TimePoint now : {kNow, kNow + 1h}) {
    EXPECT_THAT(Check(*table, key.secret, now).Message(), Not(HasSubstr(secret_part)));
  }
  std::string wrong = key.secret;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  EXPECT_THAT(Check(*table, wrong, kNow).Message(), Not(HasSubstr(wrong.substr(20))));
  EXPECT_THAT(Check(*table, "sk-" + secret_part, kNow).Message(), Not(HasSubstr(secret_part)));
}

TEST(KeyStore, TheFileIsForItsOwnerOnly) {
  const TempDir dir;
  const std::string path = dir / "keys.jsonl";
  OpenStore(path);
  struct stat s;
  ASSERT_EQ(stat(path.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const auto refused = KeyStore::Open(path, kNow);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("mode 640"));
}

TEST(KeyStore, ExpiryIsTheFirstMomentAtWhichAKeyNoLongerWorks) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  KeySpec spec = Search();
  spec.expires = kNow + 60s;
  const NewKey key = *store->Create(spec, kNow);
  EXPECT_EQ(Try(*store, key.secret, kNow + 60s - 1ns), Verdict::Kind::kOk);
  EXPECT_EQ(Try(*store, key.secret, kNow + 60s), Verdict::Kind::kExpired);
  const auto table = store->Table();
  EXPECT_THAT(Check(*table, key.secret, kNow + 1h).Message(), HasSubstr("expired at 2026-11-20T08:31:00"));
}

TEST(KeyStore, ARotatedKeyWorksUntilItsOverlapEnds) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  KeySpec spec = Search();
  spec.permissions.models = {"chat-*"};
  spec.limits = R"({"concurrency":4})";
  spec.expires = kNow + 10h;
  const NewKey old = *store->Create(spec, kNow);
  const NewKey next = *store->Rotate(old.id, {.overlap = 1h, .changer = {"ops"}}, kNow + 5h);

  EXPECT_EQ(Try(*store, old.secret, kNow + 6h - 1ns), Verdict::Kind::kOk);
  EXPECT_EQ(Try(*store, old.secret, kNow + 6h), Verdict::Kind::kReplaced);
  EXPECT_EQ(Try(*store, next.secret, kNow + 6h), Verdict::Kind::kOk);
  const auto table = store->Table();
  const KeyRecord& before = **table->Find(old.id);
  const KeyRecord& after = **table->Find(next.id);
  EXPECT_EQ(before.replaced_by, next.id);
  EXPECT_EQ(after.rotated_from, old.id);
  EXPECT_EQ(after.tenant, before.tenant);
  EXPECT_EQ(after.permissions, before.permissions);
  EXPECT_EQ(after.limits, before.limits);
  EXPECT_EQ(after.expires, kNow + 15h) << "as long a life as the old one was given";
  EXPECT_THAT(Check(*table, old.secret, kNow + 7h).Message(), HasSubstr("replaced by " + next.id));
}

TEST(KeyStore, AnOverlapDoesNotOutliveTheOldKeysOwnExpiry) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  KeySpec spec = Search();
  spec.expires = kNow + 1h;
  const NewKey old = *store->Create(spec, kNow);
  ASSERT_TRUE(store->Rotate(old.id, {.overlap = 48h}, kNow).ok());
  EXPECT_EQ(Try(*store, old.secret, kNow + 1h), Verdict::Kind::kExpired);
  EXPECT_EQ(*(*store->Table()->Find(old.id))->EndsAt(), kNow + 1h);
}

TEST(KeyStore, WithoutOverlapTheOldKeyStopsAtOnce) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey old = *store->Create(Search(), kNow);
  ASSERT_TRUE(store->Rotate(old.id, {}, kNow).ok());
  EXPECT_EQ(Try(*store, old.secret, kNow), Verdict::Kind::kReplaced);
}

TEST(KeyStore, ARevokedKeyIsRefusedWhateverTheClockSays) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey key = *store->Create(Search(), kNow);
  ASSERT_TRUE(store->Revoke(key.id, {"ops"}, "leaked", kNow + 1h).ok());
  for (const conf::TimePoint now : {kNow, kNow + 1h, kNow + 1000h}) {
    EXPECT_EQ(Try(*store, key.secret, now), Verdict::Kind::kRevoked);
  }
}

TEST(KeyStore, RevokingAnOldKeyLeavesItsReplacement) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey old = *store->Create(Search(), kNow);
  const NewKey next = *store->Rotate(old.id, {.overlap = 1h}, kNow);
  ASSERT_TRUE(store->Revoke(old.id, {"ops"}, "", kNow).ok());
  EXPECT_EQ(Try(*store, old.secret, kNow), Verdict::Kind::kRevoked);
  EXPECT_EQ(Try(*store, next.secret, kNow), Verdict::Kind::kOk);
}

TEST(KeyStore, RotatesUpToTheLastTimeThereIsAndRefusesWhatLiesBeyond) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  KeySpec far = Search();
  far.expires = conf::TimePoint::max();
  const NewKey old = *store->Create(far, kNow);
  const conf::Duration left = std::chrono::floor<std::chrono::microseconds>(conf::TimePoint::max()) - kNow;

  const auto too_long = store->Rotate(old.id, {.overlap = left + 1us}, kNow);
  EXPECT_EQ(too_long.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_long.status().message()),
              testing::AllOf(HasSubstr("overlap: "), HasSubstr("beyond 2262-04-11T")));
  const auto too_far = store->Rotate(old.id, {}, kNow + 1s);
  EXPECT_EQ(too_far.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_far.status().message()), HasSubstr("say when it expires"));
  EXPECT_EQ(Try(*store, old.secret, kNow + 1h), Verdict::Kind::kOk);

  const auto next = store->Rotate(old.id, {.overlap = left}, kNow);
  ASSERT_TRUE(next.ok()) << next.status();
  const auto opened = OpenStore(dir / "keys.jsonl");
  for (const KeyStore* each : {store.get(), opened.get()}) {
    EXPECT_EQ(Try(*each, old.secret, kNow + 24h * 365 * 200), Verdict::Kind::kOk);
    EXPECT_EQ(Try(*each, next->secret, kNow + 24h * 365 * 200), Verdict::Kind::kOk);
  }
}

TEST(KeyStore, WhoMayNotChangeAdminKeysMayNotChangeOneThatAnotherProcessHasJustMade) {
  const TempDir dir;
  const auto server = OpenStore(dir / "keys.jsonl");
  const auto cli = OpenStore(dir / "keys.jsonl");
  KeySpec admin;
  admin.role = Role::kViewer;
  const std::string made = cli->Create(admin, kNow)->id;
  const std::string application = cli->Create(Search(), kNow)->id;
  const Changer op{"op", Role::kOperator};
  EXPECT_EQ(server->Table()->Find(made), nullptr) << "it has not been read yet";
  EXPECT_EQ(server->Rotate(made, {.changer = op}, kNow).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(server->Revoke(made, op, "", kNow).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(server->Rotate(application, {.changer = op}, kNow).ok());
  EXPECT_TRUE(server->Revoke(application, op, "", kNow).ok());
  EXPECT_TRUE(server->Revoke(made, {"root", Role::kAdmin}, "", kNow).ok());
}

TEST(KeyStore, RefusesChangesThatMakeNoSense) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  KeySpec expiring = Search();
  expiring.expires = kNow + 1h;
  const std::string expired = store->Create(expiring, kNow)->id;
  const std::string revoked = store->Create(Search(), kNow)->id;
  ASSERT_TRUE(store->Revoke(revoked, {""}, "", kNow).ok());
  const std::string rotated = store->Create(Search(), kNow)->id;
  ASSERT_TRUE(store->Rotate(rotated, {.overlap = 1h}, kNow).ok());
  const uint64_t events = store->Version();

  struct {
    const char* what;
    absl::Status status;
    absl::StatusCode code;
  } const cases[] = {
      {"rotate expired", store->Rotate(expired, {}, kNow + 1h).status(),
       absl::StatusCode::kFailedPrecondition},
      {"rotate revoked", store->Rotate(revoked, {}, kNow).status(), absl::StatusCode::kFailedPrecondition},
      {"rotate twice", store->Rotate(rotated, {}, kNow).status(), absl::StatusCode::kFailedPrecondition},
      {"rotate unknown", store->Rotate("0000000000", {}, kNow).status(), absl::StatusCode::kNotFound},
      {"rotate by key", store->Rotate("tg-0000000000-x", {}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"negative overlap", store->Rotate(rotated, {.overlap = -1s}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"new key is past", store->Rotate(expired, {.expires = kNow}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
      {"revoke twice", store->Revoke(revoked, {""}, "", kNow), absl::StatusCode::kFailedPrecondition},
      {"revoke unknown", store->Revoke("0000000000", {""}, "", kNow), absl::StatusCode::kNotFound},
      {"reason is not UTF-8", store->Revoke(rotated, {""}, "\xff", kNow), absl::StatusCode::kInvalidArgument},
      {"by has a newline", store->Rotate(expired, {.changer = {"a\nb"}}, kNow).status(),
       absl::StatusCode::kInvalidArgument},
  };
  for (const auto& c : cases) EXPECT_EQ(c.status.code(), c.code) << c.what << ": " << c.status;
  EXPECT_EQ(store->Version(), events) << "a refused change left an event";
}

TEST(KeyStore, RefusesSpecsThatMakeNoSense) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
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
    const auto refused = store->Create(spec, kNow);
    ASSERT_FALSE(refused.ok()) << c.field;
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), testing::StartsWith(std::string(c.field) + ":"));
  }
  EXPECT_EQ(store->Version(), 0u);
}

TEST(KeyStore, LimitsTooDeepForTheLogNeverReachIt) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  KeySpec spec = Search();
  spec.limits = R"({"a":[[[[[[[[[[[[[[]]]]]]]]]]]]]]})";
  EXPECT_EQ(store->Create(spec, kNow).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadWhole(dir / "keys.jsonl"), "");
  EXPECT_TRUE(store->Create(Search(), kNow).ok());
}

TEST(KeyStore, AnAdminKeyHasARoleAndNoTenant) {
  const TempDir dir;
  KeySpec spec;
  spec.role = Role::kOperator;
  const NewKey key = *OpenStore(dir / "keys.jsonl")->Create(spec, kNow);
  const auto table = OpenStore(dir / "keys.jsonl")->Table();
  EXPECT_EQ((*table->Find(key.id))->role, Role::kOperator);
  EXPECT_EQ((*table->Find(key.id))->tenant, "");
}

TEST(KeyStore, OneStoreSeesWhatAnotherWrote) {
  const TempDir dir;
  const auto server = OpenStore(dir / "keys.jsonl");
  const auto cli = OpenStore(dir / "keys.jsonl");
  EXPECT_FALSE(*server->Refresh(kNow));
  EXPECT_FALSE(server->Changed());
  const NewKey key = *cli->Create(Search(), kNow);
  EXPECT_EQ(Try(*server, key.secret, kNow), Verdict::Kind::kUnknown);
  EXPECT_TRUE(server->Changed());
  EXPECT_TRUE(*server->Refresh(kNow));
  EXPECT_FALSE(server->Changed());
  EXPECT_EQ(Try(*server, key.secret, kNow), Verdict::Kind::kOk);
  EXPECT_FALSE(*server->Refresh(kNow));
  ASSERT_TRUE(server->Revoke(key.id, {""}, "", kNow).ok());
  EXPECT_FALSE(cli->Revoke(key.id, {""}, "", kNow).ok()) << "an append reads what others appended first";
  EXPECT_EQ(Try(*cli, key.secret, kNow), Verdict::Kind::kRevoked);
}

TEST(KeyStore, ATableInUseDoesNotChange) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey key = *store->Create(Search(), kNow);
  const auto table = store->Table();
  ASSERT_TRUE(store->Revoke(key.id, {""}, "", kNow).ok());
  EXPECT_TRUE(Check(*table, key.secret, kNow).ok());
  EXPECT_FALSE(Check(*store->Table(), key.secret, kNow).ok());
  EXPECT_EQ(table->version(), 1u);
  EXPECT_EQ(store->Version(), 2u);
}

TEST(KeyStore, EventsAreHandedOnOnceAndInOrder) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey a = *store->Create(Search(), kNow);
  const NewKey b = *store->Rotate(a.id, {.overlap = 1h, .changer = {"ops"}}, kNow + 1s);
  ASSERT_TRUE(store->Revoke(b.id, {"root"}, "leaked", kNow + 2s).ok());
  const auto all = *store->EventsSince(0, 100);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].kind, KeyEvent::Kind::kCreated);
  EXPECT_EQ(all[1].kind, KeyEvent::Kind::kRotated);
  EXPECT_EQ(all[1].id, a.id);
  EXPECT_EQ(all[1].key->id, b.id);
  EXPECT_EQ(all[1].by, "ops");
  EXPECT_EQ(all[2].kind, KeyEvent::Kind::kRevoked);
  EXPECT_EQ(all[2].reason, "leaked");
  EXPECT_EQ(all[2].at, kNow + 2s);
  uint64_t taken = 0;
  for (auto page = *store->EventsSince(taken, 1); !page.empty(); page = *store->EventsSince(taken, 1)) {
    ASSERT_EQ(page.size(), 1u);
    EXPECT_EQ(page[0].number, ++taken);
  }
  EXPECT_EQ(taken, 3u);
}

// A line that a crashed writer did not finish, in its two forms.
TEST(KeyStore, AnUnfinishedLastLineIsMovedAsideAndSaid) {
  for (const bool zeros : {false, true}) {
    SCOPED_TRACE(zeros);
    const TempDir dir;
    const std::string path = dir / "keys.jsonl";
    std::string kept;
    std::string lost;
    {
      const auto store = OpenStore(path);
      kept = store->Create(Search(), kNow)->secret;
      lost = store->Create(Search(), kNow)->secret;
    }
    const std::string whole = ReadWhole(path);
    const size_t second = whole.find('\n') + 1;
    std::string torn = whole.substr(0, whole.size() - 20);
    if (zeros) torn = whole.substr(0, second) + std::string(100, '\0') + whole.substr(second + 100);
    WriteWhole(path, torn);

    const auto store = OpenStore(path);
    EXPECT_EQ(Try(*store, kept, kNow), Verdict::Kind::kOk);
    EXPECT_EQ(Try(*store, lost, kNow), Verdict::Kind::kUnknown);
    EXPECT_EQ(ReadWhole(path + ".torn-2"), torn.substr(second));
    const auto events = *store->EventsSince(1, 10);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, KeyEvent::Kind::kTailMoved);
    EXPECT_THAT(events[0].reason, HasSubstr("keys.jsonl.torn-2"));
    EXPECT_TRUE(store->Create(Search(), kNow).ok());
    EXPECT_EQ(OpenStore(path)->Version(), 3u);
  }
}

TEST(KeyStore, AnotherWritersUnfinishedLineIsRepairedByTheNextWriter) {
  const TempDir dir;
  const std::string path = dir / "keys.jsonl";
  const auto store = OpenStore(path);
  ASSERT_TRUE(store->Create(Search(), kNow).ok());
  WriteWhole(path, ReadWhole(path) + R"({"event":2,"ki)");
  ASSERT_TRUE(store->Create(Search(), kNow).ok());
  EXPECT_EQ(store->Version(), 3u);
  EXPECT_EQ(ReadWhole(path + ".torn-2"), R"({"event":2,"ki)");
}

TEST(KeyStore, TruncationAnywhereInTheLastLineIsSurvived) {
  const TempDir dir;
  const std::string path = dir / "keys.jsonl";
  std::string first;
  {
    const auto store = OpenStore(path);
    first = store->Create(Search(), kNow)->secret;
    ASSERT_TRUE(store->Create(Search(), kNow).ok());
  }
  const std::string whole = ReadWhole(path);
  for (size_t size = whole.find('\n') + 1; size < whole.size(); size += 11) {
    WriteWhole(path, whole.substr(0, size));
    const auto store = OpenStore(path);
    ASSERT_EQ(Try(*store, first, kNow), Verdict::Kind::kOk) << size;
    ASSERT_EQ(store->Table()->size(), 1u) << size;
  }
}

TEST(KeyStore, DamageThatIsNoCrashIsNamedAndNotRepaired) {
  const TempDir dir;
  const std::string path = dir / "keys.jsonl";
  {
    const auto store = OpenStore(path);
    const NewKey a = *store->Create(Search(), kNow);
    const NewKey b = *store->Create(Search(), kNow);
    ASSERT_TRUE(store->Revoke(a.id, {""}, "", kNow).ok());
  }
  const std::string whole = ReadWhole(path);
  const size_t second = whole.find('\n') + 1;
  const size_t third = whole.find('\n', second) + 1;
  std::string flipped = whole;
  flipped[second + 20] ^= 1;
  std::string last_flipped = whole;
  last_flipped[third + 20] ^= 1;
  struct {
    const char* what;
    std::string bytes;
    const char* says;
  } const cases[] = {
      {"a changed byte", flipped, "event 2"},
      {"a changed byte in the last line", last_flipped, "event 3"},
      {"a missing line", whole.substr(0, second) + whole.substr(third), "event 2"},
      {"a repeated line", whole.substr(0, third) + whole.substr(second), "event 3"},
      {"swapped lines", whole.substr(second, third - second) + whole.substr(0, second), "event 1"},
      {"an empty line", "\n" + whole, "event 1"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    WriteWhole(path, c.bytes);
    const auto refused = KeyStore::Open(path, kNow);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(c.says));
    EXPECT_EQ(ReadWhole(path), c.bytes);
  }
}

TEST(KeyStore, ARunningStoreKeepsItsTableWhenTheFileIsSpoiled) {
  const TempDir dir;
  const std::string path = dir / "keys.jsonl";
  const auto store = OpenStore(path);
  const NewKey key = *store->Create(Search(), kNow);
  const std::string whole = ReadWhole(path);

  WriteWhole(path, "");
  EXPECT_THAT(std::string(store->Refresh(kNow).status().message()), HasSubstr("shrank"));
  EXPECT_EQ(Try(*store, key.secret, kNow), Verdict::Kind::kOk);
  EXPECT_FALSE(store->Create(Search(), kNow).ok());

  WriteWhole(path, whole);
  EXPECT_TRUE(store->Refresh(kNow).ok());

  std::filesystem::rename(path, path + ".old");
  EXPECT_FALSE(store->Refresh(kNow).ok());
  WriteWhole(path, whole);
  EXPECT_THAT(std::string(store->Refresh(kNow).status().message()), HasSubstr("replaced"));
  EXPECT_EQ(Try(*store, key.secret, kNow), Verdict::Kind::kOk);
}

TEST(KeyStore, EventsOfANewerVersionAreNotHalfUnderstood) {
  for (
      const char* object : {
          R"({"event":1,"kind":"frozen","at":"2026-11-20T08:30:00Z"})",
          R"({"event":1,"kind":"revoked","at":"2026-11-20T08:30:00Z","id":"0123456789","only_from":"10.0.0.1"})",
          R"({"event":1,"kind":"revoked","at":"2026-11-20T08:30:00Z"})",
          R"({"event":1,"kind":"created","at":"2026-11-20T08:30:00Z","key":{"id":"0123456789"}})",
          R"({"event":1,"event":1,"kind":"revoked","at":"2026-11-20T08:30:00Z","id":"0123456789"})",
          R"({"event":-1,"kind":"revoked","at":"2026-11-20T08:30:00Z","id":"0123456789"})",
      }) {
    EXPECT_EQ(DecodeEvent(object).status().code(), absl::StatusCode::kDataLoss) << object;
  }
}

// A disk that is slow keeps the lock with whoever has it; a person would try again.
absl::Status InTheEnd(const std::function<absl::Status()>& change) {
  while (true) {
    const absl::Status changed = change();
    if (!absl::IsDeadlineExceeded(changed)) return changed;
  }
}

TEST(KeyStore, TwoProcessesWritingLoseAndRepeatNothing) {
  constexpr int kEach = 40;
  const TempDir dir;
  const std::string path = dir / "keys.jsonl";
  OpenStore(path);
  std::vector<pid_t> writers;
  for (int w = 0; w < 2; ++w) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto store = KeyStore::Open(path, kNow);
      bool ok = store.ok();
      for (int i = 0; ok && i < kEach; ++i) {
        absl::StatusOr<NewKey> key;
        ok = InTheEnd([&] { return (key = (*store)->Create(Search(), kNow)).status(); }).ok() &&
             (i % 4 != 0 || InTheEnd([&] { return (*store)->Revoke(key->id, {""}, "", kNow); }).ok());
      }
      _exit(ok ? 0 : 1);
    }
    writers.push_back(pid);
  }
  const auto reader = OpenStore(path);
  bool refreshes = true;
  for (size_t left = writers.size(); left > 0;) {
    refreshes = refreshes && InTheEnd([&] { return reader->Refresh(kNow).status(); }).ok();
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0) {
      --left;
      EXPECT_EQ(status, 0);
    }
  }
  EXPECT_TRUE(refreshes);
  ASSERT_TRUE(reader->Refresh(kNow).ok());
  EXPECT_EQ(reader->Table()->size(), 2u * kEach);
  const auto events = *reader->EventsSince(0, 1000);
  ASSERT_EQ(events.size(), 2u * (kEach + kEach / 4));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].number, i + 1);
}

TEST(KeyStore, ShardsCheckWhileKeysChange) {
  const TempDir dir;
  const auto store = OpenStore(dir / "keys.jsonl");
  const NewKey steady = *store->Create(Search(), kNow);
  std::atomic<bool> stop{false};
  std::atomic<int> refused{0};
  std::vector<std::thread> shards;
  for (int i = 0; i < 2; ++i) {
    shards.emplace_back([&] {
      uint64_t version = 0;
      auto table = store->Table();
      while (!stop.load()) {
        if (const uint64_t now = store->Version(); now != version) {
          table = store->Table();
          version = now;
        }
        if (!Check(*table, steady.secret, kNow).ok()) refused.fetch_add(1);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const auto key = store->Create(Search(), kNow);
    ASSERT_TRUE(key.ok());
    ASSERT_TRUE(store->Revoke(key->id, {""}, "", kNow).ok());
  }
  stop = true;
  for (std::thread& t : shards) t.join();
  EXPECT_EQ(refused.load(), 0);
  EXPECT_EQ(store->Version(), 101u);
}

}  // namespace
}  // namespace plugins::auth
