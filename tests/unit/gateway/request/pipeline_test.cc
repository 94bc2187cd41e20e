#include "gateway/request/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsSupersetOf;

// The names in the headings "### 3. `name`" of a chapter of the page.
std::vector<std::string> NamesInChapter(std::string_view chapter) {
  std::ifstream page(std::string(TIDEGATE_SOURCE) + "/docs/life-of-a-request.md");
  EXPECT_TRUE(page) << "docs/life-of-a-request.md";
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line.substr(3) == chapter;
    if (!inside || !line.starts_with("### ")) continue;
    const size_t begin = line.find('`') + 1;
    names.push_back(line.substr(begin, line.find('`', begin) - begin));
    EXPECT_TRUE(line.starts_with("### " + std::to_string(names.size()) + ". ")) << line;
  }
  return names;
}

template <class Steps>
std::vector<std::string> NamesOf(const Steps& steps) {
  std::vector<std::string> names;
  for (const auto& step : steps) names.emplace_back(step.name);
  return names;
}

TEST(Pipeline, ThePageNamesTheStagesInOrder) {
  EXPECT_THAT(NamesInChapter("Stages"), ElementsAreArray(NamesOf(Stages())));
  EXPECT_THAT(NamesInChapter("Endings"), ElementsAreArray(NamesOf(Endings())));
}

TEST(Pipeline, EachStageDecidesOrWaits) {
  for (const Stage& stage : Stages())
    EXPECT_TRUE(stage.decide != nullptr || stage.wait != nullptr) << stage.name;
}

TEST(Pipeline, ClaimsComeBeforeTheBodyAndContentIsCheckedBeforeLimitsAreCharged) {
  EXPECT_THAT(NamesOf(Stages()), IsSupersetOf({"check_body", "claim_place", "claim_memory", "read_body",
                                               "read_facts", "check_content", "reserve"}));
  const std::vector<std::string> order = NamesOf(Stages());
  const auto place = [&](std::string_view name) { return std::ranges::find(order, name) - order.begin(); };
  EXPECT_LT(place("authenticate"), place("claim_place"));
  EXPECT_LT(place("claim_place"), place("claim_memory"));
  EXPECT_LT(place("claim_memory"), place("read_body"));
  EXPECT_LT(place("read_facts"), place("check_content"));
  EXPECT_LT(place("check_content"), place("reserve"));
}

}  // namespace
}  // namespace gateway
