#include "tools/engine/fault.h"

#include <gtest/gtest.h>

namespace tidegate_engine {
namespace {

TEST(Fault, IsReadFromItsFlag) {
  auto fault = ParseFault("stall:5@0.25");
  ASSERT_TRUE(fault.ok());
  EXPECT_EQ(fault->kind, FaultKind::kStall);
  EXPECT_EQ(fault->arg, 5u);
  EXPECT_EQ(fault->probability, 0.25);
  EXPECT_EQ(ParseFault("500@every:3")->every, 3u);
  EXPECT_EQ(ParseFault("hang@first:2")->first, 2u);
  EXPECT_EQ(ParseFault("429")->arg, 1u);
  EXPECT_EQ(ParseFault("429:30")->arg, 30u);
}

TEST(Fault, BadFlagsAreNamed) {
  EXPECT_NE(std::string(ParseFault("stal:5").status().message()).find("did you mean \"stall\""),
            std::string::npos);
  for (const char* bad :
       {"", "stall:x", "stall:-1", "500@2", "500@", "500@every:0", "500@every:x", "500@nan"}) {
    EXPECT_FALSE(ParseFault(bad).ok()) << bad;
  }
}

TEST(Fault, IsReadFromJson) {
  auto fault = FaultFromJson(Json::parse(R"({"kind":"drop","arg":2,"first":1,"api":"health"})"));
  ASSERT_TRUE(fault.ok());
  EXPECT_EQ(fault->arg, 2u);
  EXPECT_EQ(fault->api, "health");
  EXPECT_TRUE(FaultFromJson(Json("503@every:2")).ok());
  for (const char* bad : {"{}", "[]", "1", R"({"kind":"x"})", R"({"kind":"500","api":"nothing"})",
                          R"({"kind":"500","probability":2})", R"({"kind":"500","count":1})"}) {
    EXPECT_FALSE(FaultFromJson(Json::parse(bad)).ok()) << bad;
  }
}

TEST(Faults, EveryNthAndTheFirstNAreExact) {
  Faults faults(1);
  faults.Add(*ParseFault("500@every:3"));
  int fired = 0;
  for (int i = 1; i <= 9; ++i) {
    bool hit = faults.Pick(Api::kChat).has_value();
    EXPECT_EQ(hit, i % 3 == 0);
    fired += hit;
  }
  EXPECT_EQ(fired, 3);
  faults.Clear();
  faults.Add(*ParseFault("500@first:2"));
  EXPECT_TRUE(faults.Pick(Api::kChat));
  EXPECT_TRUE(faults.Pick(Api::kChat));
  EXPECT_FALSE(faults.Pick(Api::kChat));
}

TEST(Faults, ProbabilityIsKeptToInTheLongRun) {
  Faults faults(7);
  faults.Add(*ParseFault("503@0.2"));
  int fired = 0;
  for (int i = 0; i < 10000; ++i) fired += faults.Pick(Api::kChat).has_value();
  EXPECT_NEAR(fired, 2000, 150);
}

TEST(Faults, SpareProbesAndTheEngineItselfUnlessNamed) {
  Faults faults(1);
  faults.Add(*ParseFault("500"));
  EXPECT_FALSE(faults.Pick(Api::kHealth));
  EXPECT_FALSE(faults.Pick(Api::kStats));
  EXPECT_TRUE(faults.Pick(Api::kEmbeddings));
  faults.Clear();
  faults.Add(*FaultFromJson(Json::parse(R"({"kind":"hang","api":"health"})")));
  EXPECT_TRUE(faults.Pick(Api::kHealth));
  EXPECT_FALSE(faults.Pick(Api::kChat));
}

TEST(Faults, RefusalsAreDecidedAtAcceptOnly) {
  Faults faults(1);
  faults.Add(*ParseFault("refuse@first:1"));
  EXPECT_FALSE(faults.Pick(Api::kChat));
  EXPECT_TRUE(faults.PickRefusal());
  EXPECT_FALSE(faults.PickRefusal());
}

}  // namespace
}  // namespace tidegate_engine
