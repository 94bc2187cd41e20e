#include "gateway/telemetry/trace_context.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "conf/hex.h"

namespace gateway::telemetry {
namespace {

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, ReadsAndWritesTraceparent) {
  const auto context = ParseTraceContext(kParent, "rojo=00f067aa0ba902b7, congo@x=t61rcWkgMzE ,,a/b*-_=1");
  ASSERT_TRUE(context);
  EXPECT_EQ(conf::Hex(context->trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(conf::Hex(context->span_id), "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->state, "rojo=00f067aa0ba902b7, congo@x=t61rcWkgMzE ,,a/b*-_=1");
  EXPECT_EQ(RenderTraceparent(*context), kParent);
}

TEST(TraceContext, ReadsFlagsAndLaterVersions) {
  struct Case {
    std::string text;
    bool sampled;
  };
  const std::string ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
  for (const Case& c :
       {Case{"00-" + ids + "-00", false}, Case{"00-" + ids + "-fe", false}, Case{"00-" + ids + "-ff", true},
        Case{"cc-" + ids + "-01", true}, Case{"cc-" + ids + "-01-what-the-future-brings", true},
        Case{"01-" + ids + "-00-", false}}) {
    const auto context = ParseTraceContext(c.text, "");
    ASSERT_TRUE(context) << c.text;
    EXPECT_EQ(context->sampled, c.sampled) << c.text;
    EXPECT_EQ(RenderTraceparent(*context), "00-" + ids + (c.sampled ? "-01" : "-00"));
  }
}

TEST(TraceContext, RefusesEveryMalformedTraceparent) {
  for (const char* text : {
           "",
           "00",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.x",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "FF-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
       }) {
    EXPECT_FALSE(ParseTraceContext(text, "")) << text;
  }
}

TEST(TraceContext, DropsAMalformedTracestateAlone) {
  std::string many;
  for (int i = 0; i < 33; ++i) many += "k" + std::to_string(i) + "=v,";
  for (const std::string& state :
       {std::string("novalue"), std::string("=v"), std::string("K=v"), std::string("1k=v"), std::string("k="),
        std::string("k=a=b"), std::string("k=v,k=w"), std::string("k=\xc3\xa9"), std::string("a@b@c=1"),
        std::string("a@=1"), std::string("k=v\r\nx-injected: 1"), "k=" + std::string(257, 'v'), many,
        "a=" + std::string(250, 'v') + ",b=" + std::string(250, 'v') + ",c=" + std::string(20, 'v')}) {
    const auto context = ParseTraceContext(kParent, state);
    ASSERT_TRUE(context);
    EXPECT_EQ(context->state, "") << state;
  }
}

TEST(Sampler, FollowsTheParentAndElseTheTraceIdsOwnDecision) {
  TraceContext sampled;
  sampled.sampled = true;
  TraceId low{};
  low[8] = 0x01;
  TraceId high{};
  high.fill(0xff);
  EXPECT_TRUE(Sampler(0).Sample(sampled, high));
  EXPECT_FALSE(Sampler(1).Sample(TraceContext{}, low));
  EXPECT_FALSE(Sampler(0).Sample({}, low));
  EXPECT_FALSE(Sampler(-1).Sample({}, low));
  EXPECT_FALSE(Sampler(std::nan("")).Sample({}, low));
  EXPECT_TRUE(Sampler(1).Sample({}, high));
  EXPECT_TRUE(Sampler(0.5).Sample({}, low));
  EXPECT_FALSE(Sampler(0.5).Sample({}, high));
}

TEST(Sampler, TakesAboutItsRatioAndMoreWithAHigherOne) {
  const Sampler tenth(0.1);
  const Sampler half(0.5);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const TraceId id = NewTraceId();
    taken += tenth.SampleRoot(id) ? 1 : 0;
    EXPECT_TRUE(!tenth.SampleRoot(id) || half.SampleRoot(id));
  }
  EXPECT_GT(taken, 1700);
  EXPECT_LT(taken, 2300);
}

TEST(StartTrace, StaysInTheCallersTraceWithASpanOfItsOwn) {
  const auto parent = ParseTraceContext(kParent, "a=1");
  const TraceContext ours = StartTrace(parent, Sampler(0));
  EXPECT_EQ(ours.trace_id, parent->trace_id);
  EXPECT_NE(ours.span_id, parent->span_id);
  EXPECT_TRUE(ours.sampled);
  EXPECT_EQ(ours.state, "a=1");
  std::set<std::string> distinct;
  for (int i = 0; i < 1000; ++i) {
    const TraceContext root = StartTrace({}, Sampler(0));
    EXPECT_FALSE(root.sampled);
    distinct.insert(conf::Hex(root.trace_id));
    distinct.insert(conf::Hex(root.span_id));
  }
  EXPECT_EQ(distinct.size(), 2000u);
}

}  // namespace
}  // namespace gateway::telemetry
