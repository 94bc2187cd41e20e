#include "gateway/discovery/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conf/text.h"

namespace gateway::discovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

config::Discovery Plain() {
  return {.file = config::FileSource{"/etc/replicas.yaml"}, .scheme = "http"};
}

std::vector<std::string> UrlsOf(const Targets& targets) {
  std::vector<std::string> out;
  for (const config::Target& target : targets) out.push_back(ToString(target.url));
  return out;
}

TEST(Targets, AListHasAddressesAndUrlsInYamlOrJson) {
  const auto yaml =
      ParseTargets("- 10.0.0.2:8000\n- http://10.0.0.1:8000/v1\n- \"[fd00::1]:8000\"\n", "f", Plain());
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_THAT(UrlsOf(*yaml),
              ElementsAre("http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000"));
  const auto json = ParseTargets(R"(["vllm-0.internal:8000", "vllm-0.internal:8000"])", "f", Plain());
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_THAT(UrlsOf(*json), ElementsAre("http://vllm-0.internal:8000"));
}

TEST(Targets, AnEmptyListIsNoError) {
  const auto none = ParseTargets("[]", "f", Plain());
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
}

TEST(Targets, OneWrongAddressMakesTheListAnError) {
  for (const std::string text : {"- 10.0.0.1", "- 10.0.0.1:8000\n- {a: b}", "a: b", "- https://10.0.0.1:8000",
                                 "- http://user:pass@10.0.0.1:8000", "- 10.0.0.1:8000/v1", "- [", "5"}) {
    const auto wrong = ParseTargets(text, "list.yaml", Plain());
    EXPECT_FALSE(wrong.ok()) << text;
    EXPECT_THAT(std::string(conf::Std(wrong.status().message())), HasSubstr("list.yaml")) << text;
    EXPECT_THAT(std::string(conf::Std(wrong.status().message())), testing::Not(HasSubstr("pass"))) << text;
  }
}

TEST(Targets, TheSourcesPathIsPutBeforeAddressesWithoutOne) {
  config::Discovery with_path = Plain();
  with_path.path = "/llm";
  const auto read = ParseTargets("- 10.0.0.1:8000\n- http://10.0.0.2:8000/other\n", "f", with_path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(UrlsOf(*read), ElementsAre("http://10.0.0.1:8000/llm", "http://10.0.0.2:8000/other"));
}

TEST(Targets, OnlyRecordsOfTheLowestPriorityAreUsed) {
  const std::vector<net::DnsService> used =
      Foremost({{"b", 1, 20, 0}, {"a", 1, 10, 0}, {"c", 2, 10, 0}, {".", 3, 10, 0}});
  ASSERT_EQ(used.size(), 2U);
  EXPECT_EQ(used[0].host, "a");
  EXPECT_EQ(used[1].host, "c");
  EXPECT_TRUE(Foremost({}).empty());
}

TEST(Targets, AnAnswerIsUsedForItsTimeToLiveWithinBounds) {
  EXPECT_EQ(UntilNextLookUp(std::nullopt, seconds(10)), conf::Duration(seconds(10)));
  EXPECT_EQ(UntilNextLookUp(seconds(5), seconds(10)), conf::Duration(seconds(5)));
  EXPECT_EQ(UntilNextLookUp(seconds(0), seconds(10)), conf::Duration(seconds(1)));
  EXPECT_EQ(UntilNextLookUp(seconds(600), seconds(10)), conf::Duration(seconds(10)));
  EXPECT_EQ(UntilNextLookUp(seconds(5), milliseconds(200)), conf::Duration(milliseconds(200)));
}

}  // namespace
}  // namespace gateway::discovery
