#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "conf/hex.h"
#include "gateway/ledger/content_key.h"
#include "gateway/ledger/content_keys.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrompt[] = "the patient's name is Ada";
const std::string kMaster(64, 'a');
const std::string kOtherMaster(64, 'b');

TEST(ContentKey, SealedContentOpensAndEachSealDiffers) {
  const ContentKey key("k", ContentKey::RandomBytes());
  for (const std::string& text : {std::string(), std::string(kPrompt), std::string(300'000, 'x')}) {
    const std::string sealed = key.Seal(text);
    EXPECT_EQ(sealed.size(), text.size() + ContentKey::kOverhead);
    EXPECT_EQ(key.Open(sealed), text);
    EXPECT_NE(key.Seal(text), sealed);
  }
}

TEST(ContentKey, AChangedByteAnotherKeyAndACutTextAreRefused) {
  const ContentKey key("k", ContentKey::RandomBytes());
  const std::string sealed = key.Seal(kPrompt);
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] ^= 1;
    EXPECT_FALSE(key.Open(changed)) << i;
    EXPECT_FALSE(key.Open(sealed.substr(0, i))) << i;
  }
  EXPECT_FALSE(ContentKey("k", ContentKey::RandomBytes()).Open(sealed));
}

struct ContentKeysTest : ::testing::Test {
  TempDir tmp;
  ContentKeys::Options options{.path = tmp.Sub("content_keys.json"), .master_path = tmp.Sub("content.key")};

  std::unique_ptr<ContentKeys> MustOpenKeys() const {
    auto keys = ContentKeys::Open(options);
    EXPECT_TRUE(keys.ok()) << keys.status();
    return keys.ok() ? *std::move(keys) : nullptr;
  }
};

TEST_F(ContentKeysTest, EachTenantHasAKeyThatOutlivesTheProcessAndIsNeverInClear) {
  auto keys = MustOpenKeys();
  ASSERT_TRUE(keys->Ensure({"acme", "acme/search"}).ok());
  const ContentKeyRef key = keys->For("acme");
  EXPECT_NE(key->id(), keys->For("acme/search")->id());
  EXPECT_EQ(keys->For("other"), nullptr);
  const std::string sealed = key->Seal(kPrompt);
  keys = MustOpenKeys();
  EXPECT_EQ(keys->Find(key->id())->Open(sealed), kPrompt);
  EXPECT_THAT(Slurp(options.path), Not(HasSubstr(conf::Hex(key->bytes()))));
  for (const std::string& path : {options.path, options.master_path}) {
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600) << path;
  }
}

TEST_F(ContentKeysTest, AnErasedTenantGetsANewKeyAndTheOldOneIsGone) {
  auto keys = MustOpenKeys();
  ASSERT_TRUE(keys->Ensure({"acme", "acme/search", "acmes"}).ok());
  const ContentKeyRef old = keys->For("acme/search");
  const std::string others = keys->For("acmes")->id();
  const auto erased = keys->Erase("acme", "key_1", "", conf::FromUnixMicros(1'000'000));
  ASSERT_TRUE(erased.ok()) << erased.status();
  EXPECT_EQ(erased->size(), 2u);
  for (int opened = 0; opened < 2; ++opened) {
    EXPECT_EQ(keys->Find(old->id()), nullptr);
    EXPECT_NE(keys->For("acme/search")->id(), old->id());
    EXPECT_EQ(keys->For("acmes")->id(), others);
    const auto when = keys->WhenErased(old->id());
    ASSERT_TRUE(when);
    EXPECT_EQ(when->by, "key_1");
    keys = MustOpenKeys();
  }
  EXPECT_TRUE(keys->Erase("nobody", "key_1", "", conf::FromUnixMicros(1)).value().empty());
}

TEST_F(ContentKeysTest, AnErasureThatWasNotRecordedIsRememberedAcrossAStart) {
  auto keys = MustOpenKeys();
  ASSERT_TRUE(keys->Ensure({"acme", "acme/search"}).ok());
  ASSERT_TRUE(keys->Erase("acme", "key_1", "request 4711", conf::FromUnixMicros(1'000'000)).ok());
  keys = MustOpenKeys();
  const std::vector<ContentKeys::Erased> waiting = keys->Unrecorded();
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].tenant, "acme");
  EXPECT_EQ(waiting[0].reason, "request 4711");
  ASSERT_TRUE(keys->MarkRecorded(waiting[0].id).ok());
  keys = MustOpenKeys();
  ASSERT_EQ(keys->Unrecorded().size(), 1u);
  EXPECT_EQ(keys->Unrecorded()[0].tenant, "acme/search");
}

TEST_F(ContentKeysTest, ANewMasterKeyTakesOverFromTheOldOne) {
  ASSERT_TRUE(MustOpenKeys()->Ensure({"acme"}).ok());
  const std::string id = MustOpenKeys()->For("acme")->id();
  options.masters = {kMaster};  // besides the one that was made
  EXPECT_EQ(MustOpenKeys()->For("acme")->id(), id);
  std::filesystem::remove(options.master_path);
  EXPECT_EQ(MustOpenKeys()->For("acme")->id(), id);
  options.masters = {kOtherMaster, kMaster};
  EXPECT_EQ(MustOpenKeys()->For("acme")->id(), id);
  options.masters = {kOtherMaster};
  EXPECT_EQ(MustOpenKeys()->For("acme")->id(), id);
  options.masters = {kMaster};
  const auto refused = ContentKeys::Open(options);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another master key"));
}

TEST_F(ContentKeysTest, AFileWithoutKeysMakesNoneWhileItsMasterKeyIsMissing) {
  ASSERT_TRUE(net::ReplaceFile(options.path, R"({"version":1,"keys":[],"erased":[]})", 0600).ok());
  const absl::Status refused = MustOpenKeys()->Ensure({"acme"});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("content.key is missing"));
}

TEST_F(ContentKeysTest, LostMasterKeysDamagedAndReadableFilesAreNamedAndNotReplaced) {
  ASSERT_TRUE(MustOpenKeys()->Ensure({"acme"}).ok());
  const std::string master = Slurp(options.master_path);
  const std::string file = Slurp(options.path);
  std::filesystem::remove(options.master_path);
  EXPECT_THAT(std::string(ContentKeys::Open(options).status().message()), HasSubstr("content.key"));
  EXPECT_FALSE(std::filesystem::exists(options.master_path));
  options.masters = {"too short"};
  EXPECT_THAT(std::string(ContentKeys::Open(options).status().message()),
              AllOf(HasSubstr("ledger.content_key"), Not(HasSubstr("too short"))));
  options.masters = {};
  ASSERT_TRUE(net::ReplaceFile(options.master_path, master, 0600).ok());
  ASSERT_TRUE(net::ReplaceFile(options.path, file.substr(0, file.size() / 2), 0600).ok());
  EXPECT_TRUE(absl::IsDataLoss(ContentKeys::Open(options).status()));
  ASSERT_TRUE(net::ReplaceFile(options.path, file, 0644).ok());
  EXPECT_THAT(std::string(ContentKeys::Open(options).status().message()), HasSubstr("chmod 600"));
}

TEST_F(ContentKeysTest, AReaderCreatesNothing) {
  options.may_write = false;
  EXPECT_EQ(MustOpenKeys()->For("acme"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(options.path) || std::filesystem::exists(options.master_path));
}

struct SealedContentTest : ContentKeysTest {
  const std::string dir = tmp.Sub("ledger");

  // Runs a ledger with one request whose prompt is stored.
  void Store(const ContentKey* key) const {
    const auto ledger = MustOpen(SmallOptions(dir));
    auto ticket = ledger->Shard(0).Open(SomeOpen("req_1"));
    ASSERT_TRUE(
        ticket->Content({.part = ContentPart::kPrompt, .text = kPrompt, .full_bytes = 1000, .key = key}));
    ticket->Close(SomeClose());
    ASSERT_TRUE(ledger->Stop().ok());
  }
  std::string Exported(const ContentKeys* keys, ExportFormat format = ExportFormat::kJsonLines) const {
    ExportOptions wanted;
    wanted.kinds = {Kind::kContent};
    wanted.content = keys;
    wanted.format = format;
    std::string text;
    EXPECT_TRUE(Export(dir, wanted, [&](std::string_view lines) {
                  text += lines;
                  return true;
                }).ok());
    return text;
  }
};

TEST_F(SealedContentTest, NoFileHasTheTextInClearAndOnlyTheKeyOpensIt) {
  const auto keys = MustOpenKeys();
  ASSERT_TRUE(keys->Ensure({"acme/search"}).ok());
  Store(keys->For("acme/search").get());
  for (const auto& file : std::filesystem::recursive_directory_iterator(tmp.Sub(""))) {
    if (file.is_regular_file()) EXPECT_THAT(Slurp(file.path()), Not(HasSubstr("patient"))) << file.path();
  }
  EXPECT_TRUE(MustVerify(dir).ok());
  const Record record = OfKind(dir, Kind::kContent).at(0);
  EXPECT_EQ(record.content_key, keys->For("acme/search")->id());
  EXPECT_TRUE(record.cut);
  EXPECT_THAT(Exported(nullptr), Not(HasSubstr("patient")));
  EXPECT_THAT(Exported(keys.get()), AllOf(HasSubstr(kPrompt), Not(HasSubstr("ciphertext\""))));
  EXPECT_THAT(Exported(keys.get(), ExportFormat::kCsv), HasSubstr(kPrompt));
}

TEST_F(SealedContentTest, ErasedContentIsMarkedAndTheChainStaysValid) {
  const auto keys = MustOpenKeys();
  ASSERT_TRUE(keys->Ensure({"acme/search"}).ok());
  Store(keys->For("acme/search").get());
  ASSERT_TRUE(keys->Erase("acme", "key_7", "", conf::FromUnixMicros(1'763'676'000'000'000)).ok());
  const std::string opened = Exported(keys.get());
  EXPECT_THAT(opened, AllOf(HasSubstr("erased: its key was destroyed at 2025-11-20"), HasSubstr("by key_7"),
                            Not(HasSubstr("patient"))));
  EXPECT_TRUE(MustVerify(dir).ok());
}

TEST_F(SealedContentTest, AKeyThatIsLostIsNotCalledErased) {
  const ContentKey stranger("0123456789abcdef", ContentKey::RandomBytes());
  Store(&stranger);
  EXPECT_THAT(Exported(MustOpenKeys().get()), HasSubstr("its key 0123456789abcdef is not in the file"));
}

TEST_F(SealedContentTest, EarlierPlainContentStaysReadable) {
  Store(nullptr);
  EXPECT_THAT(Exported(MustOpenKeys().get()), HasSubstr(kPrompt));
  EXPECT_THAT(Exported(nullptr), HasSubstr(kPrompt));
}

TEST_F(SealedContentTest, AJournalThatAKilledProcessLeftIsRecoveredSealed) {
  const ContentKey key("0123456789abcdef", ContentKey::RandomBytes());
  std::array<char, 4096> frame;
  const ContentRecord written{.part = ContentPart::kAnswer, .text = kPrompt, .key = &key};
  const size_t size = EncodeContent(written, 7, frame.data());
  ASSERT_EQ(size, ContentPayload(written));
  ContentRecord read;
  uint64_t open_n = 0;
  ASSERT_TRUE(DecodeContent({frame.data(), size}, &read, &open_n));
  EXPECT_EQ(open_n, 7u);
  EXPECT_EQ(read.sealed_by, key.id());
  EXPECT_EQ(read.kept_bytes(), sizeof kPrompt - 1);
  EXPECT_EQ(key.Open(read.text), kPrompt);
  for (size_t cut = 0; cut < size; ++cut) EXPECT_FALSE(DecodeContent({frame.data(), cut}, &read, &open_n));
}

}  // namespace
}  // namespace gateway::ledger
