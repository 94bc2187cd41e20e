// Two gateways of one PostgreSQL: feedback on a request reaches the one that served it, whichever is asked, and the
// rates of any of them count all feedback.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/postgres_server.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using testing::HasSubstr;

constexpr char kAdminSecret[] = "bootstrap-0123456789-0123456789-0123456789";
constexpr milliseconds kRatesPatience{90'000};  // usage is told every 15 s

class SharedFeedback : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PostgresServer::Missing(); !why.empty()) GTEST_SKIP() << why;
    database_ = std::make_unique<PostgresServer>();
    ASSERT_TRUE(database_->Start());
    ASSERT_TRUE(database_->MakeDatabase("shared"));
    std::ofstream(folder_ / "password") << PostgresServer::kPassword;
    std::filesystem::permissions(folder_ / "password", std::filesystem::perms::owner_read);
    std::ofstream(folder_ / "admin") << kAdminSecret;
    engine_ = std::make_unique<EngineProcess>(std::vector<std::string>{"--preset", "instant"});
    for (int i = 0; i < 2; ++i) {
      gateways_.push_back(std::make_unique<GatewayProcess>(GatewayConfig{
          .replicas = {engine_->port()},
          .tenants = "  - {name: other, models: ['*']}\n",
          .sections = fmt::format("state: {{url: \"{}\", password: \"file:{}\"}}\nadmin: {{bootstrap_key: "
                                  "'file:{}'}}\n",
                                  database_->Url("shared"), folder_ / "password", folder_ / "admin")}));
    }
  }

  GatewayProcess& at(size_t i) { return *gateways_[i]; }
  // The id of a request that this gateway has served.
  std::string Served(size_t i) {
    const Answer answer = at(i).Ask(Chat({{"max_tokens", 2}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.header("x-request-id");
  }
  Answer Say(size_t i, const std::string& request, const Json& value, const Json& more = Json::object(),
             std::string_view headers = {}) {
    Json body = {{"request_id", request}, {"name", "helpful"}, {"value", value}};
    body.update(more);
    return at(i).Ask(Post("/v1/feedback", body.dump(), headers));
  }
  Answer Read(size_t i, const std::string& request) {
    return at(i).Ask(Get("/v1/feedback?request_id=" + request));
  }
  // Until the gateways know of each other.
  void AwaitBoth() {
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(Within(RawClient::kPatience, [&] {
        const Answer listed = at(i).AskAdmin(Get("/admin/v1/gateways", AsAdmin()));
        return listed.status == 200 && listed.json()["data"].size() == 2u;
      }));
    }
  }
  static std::string AsAdmin() { return fmt::format("Authorization: Bearer {}\r\n", kAdminSecret); }
  size_t Recorded(size_t i) {
    const std::vector<gateway::ledger::Record> records = at(i).Records();
    return static_cast<size_t>(std::ranges::count(records, Kind::kFeedback, &gateway::ledger::Record::kind));
  }
  // The row of `helpful` that a gateway shows.
  Json Rate(size_t i) {
    const Json list = at(i).AskAdmin(Get("/admin/v1/feedback?by=model", AsAdmin())).json();
    if (!list.is_object() || list["data"].size() != 1) return {};
    EXPECT_TRUE(list.contains("as_of"));
    return list["data"][0];
  }
  bool Counts(size_t i, int count, int positive) {
    return Within(kRatesPatience, [&] {
      const Json row = Rate(i);
      return row.is_object() && row.value("count", 0) == count && row.value("positive", 0) == positive;
    });
  }

  TempDir folder_;
  std::unique_ptr<PostgresServer> database_;
  std::unique_ptr<EngineProcess> engine_;
  std::vector<std::unique_ptr<GatewayProcess>> gateways_;
};

TEST_F(SharedFeedback, AnyGatewayTakesFeedbackAndShowsIt) {
  AwaitBoth();
  // What the database sees of the calls, all of it.
  ASSERT_TRUE(database_->Sql(
      "shared",
      "CREATE TABLE tidegate.seen (body TEXT); CREATE FUNCTION tidegate.see() RETURNS trigger LANGUAGE "
      "plpgsql "
      "SECURITY DEFINER AS $$ BEGIN IF NEW.kind = 'feedback_call' AND NEW.body IS NOT NULL "
      "THEN INSERT INTO tidegate.seen VALUES (encode(NEW.body, 'escape')); END IF; RETURN NEW; "
      "END $$; CREATE TRIGGER see AFTER INSERT OR UPDATE ON tidegate.objects FOR EACH ROW "
      "EXECUTE FUNCTION tidegate.see()"));
  const std::string request = Served(0);
  const Answer given =
      Say(1, request, false, {{"comment", "much-too-long"}, {"correction", "Short and right."}});
  ASSERT_EQ(given.status, 200) << given.body;
  EXPECT_EQ(given.json()["model"], "chat-small");
  EXPECT_FALSE(given.json()["version"].is_null()) << given.body;
  EXPECT_EQ(Recorded(0), 1u) << "it is on disk when it is acknowledged";
  EXPECT_EQ(Recorded(1), 0u);
  for (size_t i = 0; i < 2; ++i) {
    const Answer read = Read(i, request);
    ASSERT_EQ(read.status, 200) << i << read.body;
    const Json data = read.json()["data"];
    ASSERT_EQ(data.size(), 1u) << i;
    EXPECT_EQ(data[0]["comment"], "much-too-long");
    EXPECT_EQ(data[0]["correction"], "Short and right.");
  }
  EXPECT_TRUE(
      database_->Sql("shared",
                     "DO $$ BEGIN IF (SELECT count(*) FROM tidegate.seen) < 4 OR EXISTS (SELECT 1 FROM "
                     "tidegate.seen WHERE body "
                     "LIKE '%much-too%' OR body LIKE '%and right%') THEN RAISE 'seen'; END IF; END $$"))
      << "content stands in the database";
  EXPECT_TRUE(Within(RawClient::kPatience, [&] {
    return database_->Sql(
        "shared",
        "DO $$ BEGIN IF EXISTS (SELECT 1 FROM tidegate.objects WHERE kind = 'feedback_call' AND "
        "body IS NOT NULL) THEN RAISE 'left'; END IF; END $$");
  })) << "calls are removed";
  // The latest counts, whichever gateway takes it.
  EXPECT_EQ(Say(1, request, true).status, 200);
  EXPECT_EQ(Say(0, request, false).status, 200);
  EXPECT_EQ(Say(1, Served(1), true).status, 200);
  EXPECT_EQ(Say(0, Served(1), true).status, 200);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(Counts(i, 3, 2)) << i << Rate(i);
  for (size_t i = 0; i < 2; ++i) {
    const CliResult usage = RunCli({"usage", "--by", "feedback", "--json", "-c", at(i).config_path()});
    EXPECT_EQ(usage.code, 0) << usage.err;
    const Json rows = conf::ParseJson(usage.out);
    ASSERT_EQ(rows.size(), 1u) << usage.out;
    EXPECT_EQ(rows[0]["count"], 3);
  }
  // Requests that never were, and those of another tenant.
  std::string never = request;
  never.back() = never.back() == '0' ? '1' : '0';
  EXPECT_EQ(Say(1, never, true).status, 404);
  const Answer made =
      at(1).AskAdmin(Post("/admin/v1/keys", Json{{"name", "o"}, {"tenant", "other"}}.dump(), AsAdmin()));
  ASSERT_EQ(made.status / 100, 2) << made.body;
  const std::string key = made.json()["secret"];
  EXPECT_EQ(Say(1, request, true, Json::object(), fmt::format("Authorization: Bearer {}\r\n", key)).status,
            404);
}

TEST_F(SharedFeedback, AGatewayThatIsAwayIsNamedAndFeedbackFollowsWhenItIsBack) {
  AwaitBoth();
  const std::string request = Served(0);
  EXPECT_EQ(Say(1, request, true).status, 200);
  uint16_t killed = at(0).admin_port();
  at(0).Kill();
  const auto away = [&] {
    const Answer refused = Say(1, request, false);
    EXPECT_EQ(refused.status, 503) << refused.body;
    EXPECT_EQ(refused.code(), "store_unavailable") << refused.body;
    if (killed != 0) EXPECT_THAT(refused.body, HasSubstr(fmt::format(":{}", killed)));
    return refused.body.find("is away") != std::string::npos;
  };
  EXPECT_TRUE(Within(RawClient::kPatience, away));
  killed = 0;  // it comes back on another port, so with another name
  at(0).Start();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return Say(1, request, false).status == 200; }));
  EXPECT_EQ(Read(1, request).json()["data"][0]["value"], false);
  // One that stops removes its record, and is still known.
  EXPECT_EQ(at(0).Stop(), 0);
  EXPECT_TRUE(away());
  at(0).Start();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return Say(1, request, true).status == 200; }));
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(Counts(i, 1, 1)) << i << Rate(i);
}

TEST_F(SharedFeedback, CallsAreAnsweredWithoutWaiting) {
  AwaitBoth();
  constexpr int kCalls = 40;
  const std::string request = Served(0);
  EXPECT_EQ(Say(1, request, true).status, 200);
  for (size_t i = 0; i < 2; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    for (int n = 0; n < kCalls; ++n) EXPECT_EQ(Say(i, request, n % 2 == 0).status, 200);
    const auto took = std::chrono::steady_clock::now() - begun;
    const double each = std::chrono::duration<double, std::milli>(took).count() / kCalls;
    RecordProperty(i == 0 ? "here_ms" : "passed_ms", fmt::format("{:.1f}", each));
    fmt::print(stderr, "{}: {:.1f} ms a call\n", i == 0 ? "at the gateway" : "passed", each);
    // No poll of the store is between.
    EXPECT_LT(each, 1000);
  }
}

}  // namespace
}  // namespace tests
