#include "gateway/cli/gateways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gateway/cli/audit_remote.h"
#include "gateway/net/clock.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::cli::KnownGateway;
using gateway::cli::KnownGateways;
using gateway::cli::LoadGateways;
using gateway::cli::SaveGateways;

KnownGateway Of(const std::string& url) {
  return {.url = url,
          .token = conf::Secret("", "tgs_" + url),
          .actor = "person:ada",
          .ends = gateway::net::Now()};
}

TEST(Gateways, AreReadAsTheyWereSavedAndNobodyElseMayRead) {
  const tests::TempDir dir;
  const std::string path = dir / "a/b/gateways.json";
  KnownGateways gateways;
  gateways.Put(Of("https://one"));
  gateways.Put(Of("https://two:9090"));
  ASSERT_TRUE(SaveGateways(path, gateways).ok());
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto read = LoadGateways(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_NE(read->Current(), nullptr);
  EXPECT_EQ(read->Current()->url, "https://two:9090");
  ASSERT_NE(read->Find("https://one"), nullptr);
  EXPECT_EQ(read->Find("https://one")->token.Reveal(), "tgs_https://one");
  EXPECT_EQ(read->Find("https://three"), nullptr);
}

TEST(Gateways, AFileThatOthersMayReadIsRefused) {
  const tests::TempDir dir;
  const std::string path = dir / "gateways.json";
  ASSERT_TRUE(SaveGateways(path, {}).ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(std::string(LoadGateways(path).status().message()), testing::HasSubstr("chmod 600"));
}

TEST(Gateways, ADamagedFileIsAnErrorAndAMissingOneIsNone) {
  const tests::TempDir dir;
  const std::string path = dir / "gateways.json";
  EXPECT_TRUE(LoadGateways(path).ok());
  std::ofstream(path) << "{";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_FALSE(LoadGateways(path).ok());
}

TEST(Gateways, TheLastOneThatIsLeftIsTheCurrentOne) {
  KnownGateways gateways;
  gateways.Put(Of("https://one"));
  gateways.Put(Of("https://two"));
  gateways.Put(Of("https://three"));
  gateways.Remove("https://three");
  EXPECT_EQ(gateways.Current(), nullptr);
  gateways.Remove("https://two");
  ASSERT_NE(gateways.Current(), nullptr);
  EXPECT_EQ(gateways.Current()->url, "https://one");
}

TEST(Gateways, OneAddressHasOneForm) {
  for (const char* text :
       {"https://gate.example.com", "https://gate.example.com/", "https://gate.example.com:443"})
    EXPECT_EQ(gateway::cli::AddressText(*gateway::net::ParseUrl(text)), "https://gate.example.com") << text;
}

TEST(RecordsIn, AreThoseOfTheListByteForByte) {
  EXPECT_THAT(gateway::cli::RecordsIn(
                  R"({"object":"list","data":[{"seq":1,"a":"}\"]"},{"seq":2,"b":[{}]}],"has_more":false})"),
              testing::ElementsAre(R"({"seq":1,"a":"}\"]"})", R"({"seq":2,"b":[{}]})"));
  EXPECT_THAT(gateway::cli::RecordsIn(R"({"data":[]})"), testing::IsEmpty());
  EXPECT_THAT(gateway::cli::RecordsIn("no JSON"), testing::IsEmpty());
}

}  // namespace
