// tidegate policy diff against the real gateway: what it has recorded is run again under another policy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr milliseconds kLong{40'000};

class PolicyDiffFault : public testing::Test {
 protected:
  PolicyDiffFault() { std::ofstream(folder_ / "key") << kScalingAdminKey << "\n"; }

  CliResult Diff(const std::string& policy, std::vector<std::string> more = {}) const {
    std::ofstream(folder_ / "new.yaml") << policy;
    std::vector<std::string> args = {"policy",
                                     "diff",
                                     folder_ / "new.yaml",
                                     "--admin",
                                     fmt::format("http://127.0.0.1:{}", scaled_.gateway.admin_port()),
                                     "--key-file",
                                     folder_ / "key"};
    args.insert(args.end(), more.begin(), more.end());
    return RunCli(args);
  }
  Json History() const { return scaled_.Admin("/admin/v1/scaling/chat-small/history"); }

  TempDir folder_;
  ScaledModel model_;
  Scaled scaled_{model_};
};

TEST_F(PolicyDiffFault, TellsWhatAnotherPolicyWouldHaveDoneWithTheSameTraffic) {
  // What comes before the loop's first tick is no arrival.
  ASSERT_TRUE(Within(kLong, [&] { return !History()["steps"].empty(); }));
  ASSERT_EQ(scaled_.gateway.Connect()
                .Ask(Post("/v1/chat/completions",
                          R"({"model":"chat-small","messages":[{"role":"user","content":"hi"}]})"))
                .status,
            200);
  ASSERT_TRUE(Within(kLong, [&] {
    double arrivals = 0;
    double ready = 0;
    const Json history = History();
    for (const Json& step : history["steps"]) {
      arrivals += step["arrivals_per_second"].get<double>() * step["seconds"].get<double>();
      ready += step["ready"].get<double>();
    }
    return arrivals > 0.9 && arrivals < 2.1 && ready > 0;  // twice, while it ends
  })) << History();
  EXPECT_EQ(History()["policy"]["scaling"]["window"], "5s");

  ScaledModel changed = model_;
  changed.replicas = "{min: 2, max: 2}";
  const CliResult told = Diff(scaled_.PolicyOf(changed), {"--json"});
  ASSERT_EQ(told.code, 0) << told.err;
  const Json diff = Json::parse(told.out);
  EXPECT_THAT(diff["changes"], Contains("replicas.min: 0 -> 2"));
  EXPECT_EQ(diff["changes"].size(), 1u) << diff["changes"];
  EXPECT_EQ(diff["cold_start_measured"], true);
  EXPECT_GT(diff["changed"]["replica_hours"].get<double>(), diff["running"]["replica_hours"].get<double>());
  EXPECT_GE(diff["running"]["starts"].get<int>(), 1);
  EXPECT_GE(diff["steps"].size(), 1u);

  const CliResult text = Diff(scaled_.PolicyOf(changed), {"--cold-start", "45s"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\n  replicas.min: 0 -> 2\n")) << "what differs";
  EXPECT_THAT(text.out, AllOf(HasSubstr("a replica starts within 45s (given by --cold-start)"),
                              HasSubstr("replica-hours"), HasSubstr("unserved"), HasSubstr("NEW POLICY")));
  const CliResult larger =
      Diff(scaled_.PolicyOf(model_) + "placement: {members: 2, devices: [{kind: h100, count: 8}]}\n");
  EXPECT_EQ(larger.code, 0) << larger.err;
  EXPECT_THAT(larger.out, AllOf(HasSubstr("placement.members: 1 -> 2"), HasSubstr("devices of a replica: "),
                                HasSubstr("device-hours"), HasSubstr("as fast as those that were recorded")));
  const CliResult same = Diff(scaled_.PolicyOf(model_));
  EXPECT_THAT(same.out, AllOf(HasSubstr("The two policies scale equally"), HasSubstr("Not compared: ")));
  ScaledModel other = model_;
  other.command = "[/bin/other-engine, --port, \"{port}\"]";
  EXPECT_THAT(Diff(scaled_.PolicyOf(other)).out, HasSubstr("such as replica.command"))
      << "it may run something else entirely";
}

TEST_F(PolicyDiffFault, RefusesWrongFilesAndModelsWithoutAPolicy) {
  const CliResult wrong = Diff(scaled_.PolicyOf(model_) + "replica_count: 3\n");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("new.yaml:/replica_count"));
  std::string other = scaled_.PolicyOf(model_);
  other.replace(other.find("chat-small"), 10, "chat-other");
  const CliResult unknown = Diff(other);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no policy of this gateway is for a model \"chat-other\""));
  EXPECT_EQ(Diff(scaled_.PolicyOf(model_), {"--cold-start", "soon"}).code, 2);
}

}  // namespace
}  // namespace tests
