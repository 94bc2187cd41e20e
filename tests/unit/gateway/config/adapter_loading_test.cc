#include "gateway/config/adapter_loading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/config/adapters.h"
#include "gateway/config/model.h"

namespace gateway::config {
namespace {

using testing::HasSubstr;

TEST(AdapterLoading, ASourceIsAllowedWhereItOrAFolderAboveItIsListed) {
  const AdapterLoading loading{.sources = {"/adapters", "acme", "/data/lora/sql"}};
  for (const char* const source :
       {"/adapters/sql", "/adapters/team/sql-v2", "acme/sql-lora", "/data/lora/sql", "/adapters"})
    EXPECT_EQ(WhyNotFrom(loading, source), "") << source;
  for (const char* const source :
       {"/adapters2/sql", "/data/lora", "acmes/sql", "adapters/sql", "/etc/passwd"})
    EXPECT_THAT(WhyNotFrom(loading, source),
                HasSubstr("is in none of the model's adapters.sources; give a path in /adapters, acme"))
        << source;
}

TEST(AdapterLoading, APathThatLeavesItsFolderIsNone) {
  const AdapterLoading loading{.sources = {"/adapters"}};
  for (const char* const source :
       {"/adapters/../etc", "/adapters/./x", "/adapters//x", "/adapters/", "", "~/adapters", "/adapters/a b",
        "/adapters/$(id)", "/adapters/a\nb", "http://host/adapters", "/adapters/x%2e"})
    EXPECT_NE(WhyNotFrom(loading, source), "") << source;
  EXPECT_NE(WhyNoSource(std::string(1000, 'a')), "");
}

std::vector<Model> Models() {
  std::vector<Model> models(2);
  models[0].name = "chat";
  models[0].aliases = {"small"};
  models[0].adapters = AdapterLoading{.sources = {"/adapters"}};
  models[0].price.input = 7;
  models[0].context = 4096;
  models[1].name = "sql-helper";
  models[1].lora = Lora{.base = "chat", .adapter = "sql"};
  return models;
}

TEST(RunTimeAdapters, AreModelsWithTheSettingsOfTheirBase) {
  std::vector<Model> models = Models();
  AddRunTimeAdapters(models, {{"chat", "legal"}});
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[2].name, "legal");
  ASSERT_TRUE(models[2].lora);
  EXPECT_EQ(models[2].lora->base, "chat");
  EXPECT_TRUE(models[2].lora->at_run_time);
  EXPECT_EQ(models[2].price.input, 7);
  EXPECT_EQ(models[2].context, 4096u);
  EXPECT_FALSE(models[1].lora->at_run_time);
}

TEST(RunTimeAdapters, AConfiguredModelOfTheAdapterIsServedByIt) {
  std::vector<Model> models = Models();
  EXPECT_EQ(ModelOfAdapter(models, {"chat", "sql"}), "sql-helper");
  AddRunTimeAdapters(models, {{"chat", "sql"}});
  ASSERT_EQ(models.size(), 2u);
  EXPECT_TRUE(models[1].lora->at_run_time);
}

TEST(RunTimeAdapters, TakeNoNameOfAConfiguredModelAndNeedABaseThatLoadsAdapters) {
  std::vector<Model> models = Models();
  const std::vector<RunTimeAdapter> adapters = {
      {"chat", "small"}, {"chat", "sql-helper"}, {"chat", "chat"}, {"gone", "x"}, {"sql-helper", "y"}};
  for (const RunTimeAdapter& adapter : adapters)
    EXPECT_EQ(ModelOfAdapter(models, adapter), "") << adapter.name;
  AddRunTimeAdapters(models, adapters);
  EXPECT_EQ(models.size(), 2u);
  models[0].adapters.reset();
  EXPECT_EQ(ModelOfAdapter(models, {"chat", "legal"}), "");
}

}  // namespace
}  // namespace gateway::config
