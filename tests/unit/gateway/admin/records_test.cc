// Statements, FOCUS, proofs and the verification of a running gateway.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <thread>

#include "gateway/audit/focus.h"
#include "gateway/audit/statement.h"
#include "gateway/audit/usage_copy.h"
#include "gateway/ledger/proof.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::HasItsDigest;
using gateway::MakeStatement;
using gateway::ParseMonth;
using gateway::Statement;
using gateway::StatementCsv;
using gateway::StatementJson;
using gateway::ledger::Kind;
using gateway::ledger::Proof;
using gateway::ledger::PublicKey;
using gateway::net::Task;
using plugins::auth::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::AdminClient;
using tests::json;
using tests::Reply;
using tests::WithAdmin;
using tests::World;

std::string ThisMonth() {
  return conf::FormatTime(gateway::net::Now()).substr(0, 7);
}

TEST(StatementMonth, IsAYearAndAMonth) {
  const auto month = ParseMonth("2027-12");
  ASSERT_TRUE(month.has_value());
  EXPECT_EQ(conf::FormatTime(month->begin).substr(0, 10), "2027-12-01");
  EXPECT_EQ(conf::FormatTime(month->end).substr(0, 10), "2028-01-01");
  for (const char* text : {"", "2027", "2027-13", "2027-00", "2027-1", "27-01-01", "2027-0x"})
    EXPECT_FALSE(ParseMonth(text).has_value()) << text;
}

TEST(Statements, AMonthThatIsOverGivesTheSameBytesAgain) {
  World world;
  world.Serve("demo/search", "chat-small", 3, 4);
  world.Serve("demo", "chat-large", 5, 6);
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const auto month = *ParseMonth(ThisMonth());
  const auto first = MakeStatement(world.ledger_dir(), "demo", month, month.end + std::chrono::hours(1));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->state, "final");
  EXPECT_EQ(first->total.requests, 2);
  ASSERT_EQ(first->lines.size(), 2u);
  EXPECT_EQ(first->lines[0].group[0], "demo");
  EXPECT_EQ(first->lines[1].group[0], "demo/search");
  gateway::ledger::Event event;
  event.action = "later";
  ASSERT_TRUE(world.shared.ledger->Append(event).ok());
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const auto again = MakeStatement(world.ledger_dir(), "demo", month, month.end + std::chrono::hours(9));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(StatementJson(*first), StatementJson(*again));
  EXPECT_EQ(StatementCsv(*first), StatementCsv(*again));
}

TEST(Statements, AMonthThatIsNotOverSaysUpToWhichRecord) {
  World world;
  world.Serve("demo/search", "chat-small", 3, 4);
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const auto month = *ParseMonth(ThisMonth());
  const auto made = MakeStatement(world.ledger_dir(), "demo", month, gateway::net::Now());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->state, "so_far");
  ASSERT_TRUE(made->up_to_record.has_value());
  EXPECT_GE(*made->up_to_record, 3u);
  EXPECT_FALSE(MakeStatement(world.ledger_dir(), "demo", month, month.begin - std::chrono::hours(1)).ok());
}

TEST(Statements, ADigestTellsAChangedStatement) {
  Statement statement{.tenant = "demo", .month = *ParseMonth("2027-01"), .state = "final"};
  statement.lines.push_back({.group = {"demo", "=chat", ""}, .requests = 1, .cost_micro_usd = 1'250'000});
  statement.lines.back().device_us["h100"] = 1'500'000;
  statement.total = statement.lines.back();
  for (std::string text : {StatementJson(statement), StatementCsv(statement)}) {
    EXPECT_EQ(HasItsDigest(text), true) << text;
    text[text.find("final")] = 'F';
    EXPECT_EQ(HasItsDigest(text), false) << text;
  }
  EXPECT_EQ(HasItsDigest("no statement"), std::nullopt);
  const std::string csv = StatementCsv(statement);
  EXPECT_THAT(csv, AllOf(HasSubstr("1.250000,1.500000"), Not(HasSubstr(",=chat"))));
}

TEST(Statements, ALeadGetsThoseOfTheirTenantAndNoOthers) {
  World world;
  world.Serve("demo/search", "chat-small", 3, 4);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn lead =
        co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo/search"}}});
    const std::string path = "/admin/v1/statements/" + ThisMonth();
    const Reply own = co_await client.CallAs(lead, "GET", path + "?tenant=search");
    EXPECT_EQ(own.status, 200) << own.text;
    EXPECT_EQ(own.body["total"]["requests"], 1);
    EXPECT_EQ(HasItsDigest(own.text), true);
    EXPECT_EQ((co_await client.CallAs(lead, "GET", path + "?tenant=demo")).status, 403);
    const Reply csv = co_await client.CallAs(lead, "GET", path + "?tenant=search&format=csv");
    EXPECT_THAT(csv.headers.at("content-type"), testing::StartsWith("text/csv"));
    EXPECT_EQ((co_await client.CallAs(lead, "GET", "/admin/v1/statements/never?tenant=search")).status, 400);
    const tests::SignedIn member =
        co_await client.SignIn({.id = "person:m", .roles = {{Role::kMember, "demo/search"}}});
    EXPECT_EQ((co_await client.CallAs(member, "GET", path + "?tenant=search")).status, 403);
  });
}

TEST(Usage, OfAllGatewaysIsOneAnswerThatSaysHowCurrentItIs) {
  World world;
  world.Serve("demo/search", "chat-small", 3, 4);
  const gateway::UsageOfOthers others{
      .copy_path = world.dir / "copy.db", .source = "own.k", .gateway = "here:1"};
  const conf::TimePoint as_of = gateway::net::Now() - std::chrono::minutes(3);
  const int64_t hour = conf::ToUnixMicros(gateway::net::Now()) / 3'600'000'000;
  gateway::ledger::UsageCell cell{
      .of = {"demo/search", "k", "chat-small", "", "chat", "done", "", ""}, .requests = 5, .input = 7};
  const gateway::UsageMark mark{
      .source = "other.k", .gateway = "there:1", .seq = 9, .as_of_us = conf::ToUnixMicros(as_of)};
  const auto copy = gateway::UsageCopy::Open(others.copy_path, others.source);
  ASSERT_TRUE(copy.ok()) << copy.status();
  ASSERT_TRUE((*copy)
                  ->Load({{"usage", mark.source, 2, gateway::BodyOf(mark)},
                          {"usage", gateway::UsagePartId(mark.source, hour, 0), 1,
                           gateway::UsageParts({cell}).at(0)}})
                  .ok());
  ASSERT_TRUE((*copy)->EndLoad(2).ok());
  world.operations.usage_of_others = others;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const tests::SignedIn viewer = co_await client.SignIn({.id = "person:v", .roles = {{Role::kViewer, ""}}});
    const Reply all = co_await client.CallAs(viewer, "GET", "/admin/v1/usage?by=tenant");
    EXPECT_EQ(all.status, 200) << all.text;
    EXPECT_EQ(all.body["data"][0]["requests"], 6);
    EXPECT_EQ(all.body["as_of"], conf::FormatTime(as_of));
    EXPECT_EQ(all.body["gateways"].size(), 2u);
    EXPECT_EQ(all.body["gateways"][1]["gateway"], "there:1");
    const tests::SignedIn lead =
        co_await client.SignIn({.id = "person:l", .roles = {{Role::kLead, "demo/search"}}});
    const Reply theirs = co_await client.CallAs(lead, "GET", "/admin/v1/usage?tenant=search");
    EXPECT_EQ(theirs.body["data"][0]["requests"], 6);
    EXPECT_TRUE(theirs.body.contains("as_of"));
    EXPECT_FALSE(theirs.body.contains("gateways")) << "they may not see gateways";
  });
}

TEST(Focus, HasTheColumnsOfTheSpecificationAndARowForTokensAndForDevices) {
  gateway::ledger::UsageRow row{.group = {"2027-12-31T23:00:00.000000Z", "acme/search", "Ab3", "=chat", ""},
                                .requests = 2,
                                .input = 10,
                                .output = 5,
                                .cost_micro_usd = 42};
  row.device_us["h100"] = 1'800'000'000;
  const std::string csv = gateway::FocusCsv({row}, {});
  const std::string header = csv.substr(0, csv.find("\r\n"));
  EXPECT_EQ(std::count(header.begin(), header.end(), ','), 56);
  EXPECT_THAT(header, AllOf(testing::StartsWith("AvailabilityZone,BilledCost,BillingAccountId"),
                            testing::EndsWith("SubAccountType,Tags")));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, AllOf(HasSubstr("0.000042"), HasSubstr(",15,Tokens,"), HasSubstr(",0.500000,Hours,"),
                         HasSubstr("2028-01-01T00:00:00Z,2027-12-01T00:00:00Z"), Not(HasSubstr(",=chat"))));
}

// The cells of each charge, by column.
std::vector<std::map<std::string, std::string>> Charges(const std::string& csv) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream text(csv);
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string>& cells = lines.emplace_back(1);
    bool quoted = false;
    for (const char c : std::string_view(line).substr(0, line.size() - 1)) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) {
        cells.emplace_back();
      } else {
        cells.back() += c;
      }
    }
  }
  std::vector<std::map<std::string, std::string>> out;
  for (size_t i = 1; i < lines.size(); ++i) {
    std::map<std::string, std::string>& row = out.emplace_back();
    for (size_t column = 0; column < lines[0].size(); ++column) row[lines[0][column]] = lines[i].at(column);
  }
  return out;
}

TEST(Focus, EveryChargeHasAPriceIdAndAQuantity) {
  const gateway::ledger::UsageRow images{
      .group = {"2027-12-31T23:00:00.000000Z", "acme", "Ab3", "painter", ""},
      .requests = 1,
      .cost_micro_usd = 40'000};
  const auto charges = Charges(gateway::FocusCsv({images}, {}));
  ASSERT_EQ(charges.size(), 1u);
  std::map<std::string, std::string> row = charges[0];
  EXPECT_EQ(row["SkuId"], "painter");
  EXPECT_EQ(row["SkuPriceId"], "painter");
  EXPECT_EQ(row["PricingQuantity"], "1");
  EXPECT_EQ(row["PricingUnit"], "Requests");
  EXPECT_EQ(row["SkuMeter"], "Requests");
  EXPECT_EQ(row["BilledCost"], "0.040000");
  EXPECT_THAT(row["ChargeDescription"], HasSubstr("painter: 1 request, 0 input tokens"));
  EXPECT_EQ(row["ListUnitPrice"], "") << "no price gives this cost";
}

TEST(Focus, TheUnitPriceTimesTheQuantityIsTheCost) {
  const std::string hour = "2027-12-31T23:00:00.000000Z";
  const auto price = [](int64_t input, std::optional<int64_t> cached_input, int64_t output) {
    gateway::config::Price out;
    out.input = input;
    out.cached_input = cached_input;
    out.output = output;
    return out;
  };
  const gateway::PriceList prices = {
      {"chat", {price(150'000, 80'000, 600'000), price(75'000, std::nullopt, 300'000)}}, {"free", {{}}}};
  // 7 x 0.15 + 3 x 0.08 + 5 x 0.6 = 4.29 micro-USD, which two requests round up to at most 6.
  const gateway::ledger::UsageRow usual{.group = {hour, "acme", "Ab3", "chat", ""},
                                        .requests = 2,
                                        .input = 10,
                                        .cached = 3,
                                        .output = 5,
                                        .cost_micro_usd = 6};
  const gateway::ledger::UsageRow batch{.group = {hour, "acme", "Ab4", "chat", ""},
                                        .requests = 1,
                                        .input = 1000,
                                        .output = 1000,
                                        .cost_micro_usd = 375};
  const gateway::ledger::UsageRow changed{.group = {hour, "acme", "Ab5", "chat", ""},
                                          .requests = 1,
                                          .input = 1000,
                                          .output = 1000,
                                          .cost_micro_usd = 500};
  gateway::ledger::UsageRow free{.group = {hour, "acme", "Ab6", "free", ""}, .requests = 1, .input = 9};
  free.device_us["h100"] = 1'800'000'000;
  const auto charges = Charges(gateway::FocusCsv({usual, batch, changed, free}, prices));
  std::vector<std::string> shown;
  std::map<std::string, double> billed;
  for (std::map<std::string, std::string> row : charges) {
    shown.push_back(fmt::format("{} {} x {} = {} ({})", row["SkuPriceId"], row["PricingQuantity"],
                                row["ListUnitPrice"], row["ListCost"], row["BilledCost"]));
    EXPECT_EQ(row["ContractedUnitPrice"], row["ListUnitPrice"]);
    EXPECT_EQ(row["ContractedCost"], row["ListCost"]);
    EXPECT_EQ(row["EffectiveCost"], row["BilledCost"]);
    for (
        const char* const never_null :
        {"BilledCost",      "BillingAccountId",  "BillingCurrency", "BillingPeriodEnd",  "BillingPeriodStart",
         "ChargeCategory",  "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity",
         "ConsumedUnit",    "ContractedCost",    "EffectiveCost",   "InvoiceIssuerName", "ListCost",
         "PricingCategory", "PricingQuantity",   "PricingUnit",     "ProviderName",      "PublisherName",
         "ServiceCategory", "ServiceName",       "SkuId",           "SkuPriceId"})
      EXPECT_NE(row[never_null], "") << never_null;
  }
  EXPECT_THAT(shown,
              testing::ElementsAre("chat/input 7 x 0.000000150000 = 0.000001050000 (0.000001)",
                                   "chat/cached_input 3 x 0.000000080000 = 0.000000240000 (0.000000)",
                                   "chat/output 5 x 0.000000600000 = 0.000003000000 (0.000005)",
                                   "chat/batch_input 1000 x 0.000000075000 = 0.000075000000 (0.000075)",
                                   "chat/batch_output 1000 x 0.000000300000 = 0.000300000000 (0.000300)",
                                   "chat 2000 x  = 0.000500 (0.000500)",
                                   "free/input 9 x 0.000000000000 = 0.000000000000 (0.000000)",
                                   "h100 0.500000 x 0.000000 = 0.000000 (0.000000)"));
}

TEST(Focus, TheAdminApiGivesItAsAFile) {
  World world;
  world.Serve("demo/search", "chat-small", 3, 4);
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string key(tests::kBootstrapKey);
    const Reply focus = co_await client.Call("GET", "/admin/v1/usage?format=focus&since=1h", key);
    EXPECT_EQ(focus.status, 200) << focus.text;
    EXPECT_THAT(focus.text, HasSubstr("AI and Machine Learning"));
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/usage?format=focus&by=model", key)).status, 400);
    EXPECT_EQ((co_await client.Call("GET", "/admin/v1/usage?format=xls", key)).status, 400);
    EXPECT_THAT((co_await client.Call("GET", "/admin/v1/usage?format=csv&by=model", key)).text,
                testing::StartsWith("model,requests"));
  });
}

// A ledger that has ended in order, so that a checkpoint stands behind every record.
class Ended {
 public:
  Ended() {
    gateway::ledger::Options options;
    options.dir = dir_ / "ledger";
    auto ledger = *gateway::ledger::Ledger::Open(options);
    for (int i = 0; i < 3; ++i) {
      gateway::ledger::Event event;
      event.action = "test";
      event.actor = "person:ada";
      EXPECT_TRUE(ledger->Append(event).ok());
    }
    EXPECT_TRUE(ledger->Flush().ok());
    EXPECT_TRUE(ledger->Stop().ok());
  }
  std::string dir() const { return dir_ / "ledger"; }
  PublicKey key() const { return *PublicKey::Load(dir() + "/signing.pub"); }

 private:
  tests::TempDir dir_;
};

TEST(Proofs, ARecordIsProvedByTheNextCheckpoint) {
  const Ended ledger;
  const auto proof = gateway::ledger::MakeProof(ledger.dir(), 4, 1 << 20);
  ASSERT_TRUE(proof.ok()) << proof.status();
  const auto read = gateway::ledger::ParseProof(gateway::ledger::ProofText(*proof));
  ASSERT_TRUE(read.ok()) << read.status();
  const auto report = gateway::ledger::CheckProof(*read, ledger.key());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->checkpoint, 4u);
}

TEST(Proofs, AChangedLineOrAnotherKeyIsFound) {
  const Ended ledger;
  const auto proof = gateway::ledger::MakeProof(ledger.dir(), 4, 1 << 20);
  ASSERT_TRUE(proof.ok()) << proof.status();
  Proof changed = *proof;
  const auto of_ada = std::ranges::find_if(
      changed.lines, [](const std::string& line) { return line.find("person:ada") != std::string::npos; });
  ASSERT_NE(of_ada, changed.lines.end());
  (*of_ada)[of_ada->find("ada")] = 'A';
  EXPECT_FALSE(gateway::ledger::CheckProof(changed, ledger.key()).ok());
  changed = *proof;
  changed.lines.pop_back();
  EXPECT_FALSE(gateway::ledger::CheckProof(changed, ledger.key()).ok());
  changed = *proof;
  changed.previous[0] ^= 1;
  EXPECT_FALSE(gateway::ledger::CheckProof(changed, ledger.key()).ok());
  const Ended other;
  EXPECT_FALSE(gateway::ledger::CheckProof(*proof, other.key()).ok());
  EXPECT_FALSE(gateway::ledger::ParseProof("{}").ok());
}

TEST(Proofs, ThereIsNoneOfARecordThatIsNotThere) {
  const Ended ledger;
  EXPECT_TRUE(absl::IsNotFound(gateway::ledger::MakeProof(ledger.dir(), 0, 1 << 20).status()));
  EXPECT_TRUE(absl::IsNotFound(gateway::ledger::MakeProof(ledger.dir(), 1'000'000, 1 << 20).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(gateway::ledger::MakeProof(ledger.dir(), 2, 10).status()));
}

TEST(LedgerCheck, VerifiesInTheBackgroundAndOnlyOnceAtATime) {
  const Ended ledger;
  gateway::LedgerCheck check(ledger.dir());
  EXPECT_EQ(check.Get().state, "never");
  EXPECT_TRUE(check.Start("person:ada", gateway::net::Now()));
  while (check.Get().state == "running") std::this_thread::yield();
  const gateway::LedgerCheck::Status status = check.Get();
  EXPECT_EQ(status.state, "good") << status.why;
  EXPECT_EQ(status.by, "person:ada");
  ASSERT_TRUE(status.report.has_value());
  EXPECT_GT(status.report->records, 3u);
  check.Stop();
  EXPECT_FALSE(check.Start("person:ada", gateway::net::Now()));
}

TEST(LedgerCheck, TheAdminApiStartsItAndLeavesARecord) {
  World world;
  WithAdmin(world, [&](AdminClient& client) -> Task<void> {
    const std::string key(tests::kBootstrapKey);
    const Reply started = co_await client.Call("POST", "/admin/v1/audit:verify", key, "{}");
    EXPECT_EQ(started.status, 200) << started.text;
    Reply status = co_await client.Call("GET", "/admin/v1/audit/verification", key);
    while (status.body["state"] == "running")
      status = co_await client.Call("GET", "/admin/v1/audit/verification", key);
    EXPECT_NE(status.body["state"], "never");
    EXPECT_EQ(status.body["by"], "bootstrap");
  });
  std::vector<std::string> actions;
  for (const json& record : world.Records(Kind::kAdmin)) actions.push_back(record["action"]);
  EXPECT_THAT(actions, testing::Contains("audit.verify"));
}

}  // namespace
