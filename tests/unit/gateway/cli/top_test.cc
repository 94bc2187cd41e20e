// tidegate top: lines from the rows of a gateway, keys, and messages without a gateway or a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <tuple>

#include "gateway/cli/terminal.h"
#include "gateway/cli/top_frame.h"
#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Standing Loop() {
  Standing now{.where = "http://gw:9090", .at = conf::FromUnixMicros(1'800'000'000'000'000)};
  now.traffic = {ordered_json::parse(
                     R"({"model":"large","requests_per_second":6,"errors_per_second":0,
                         "output_tokens_per_second":288.4,"outstanding_requests":9,"waiting":3,
                         "first_token_ms":{"p50":1230,"p90":2000,"p99":4600},"inter_token_ms":{"p50":41.7}})"),
                 ordered_json::parse(R"({"model":"plain","waiting":0,"first_token_ms":null})")};
  now.scaling = {ordered_json::parse(
      R"({"model":"large","demand":1.1,"ready":1,"wanted":2,"waiting":0,"launching":1,"warming":0,
          "reason":"demand","trouble":"no place for one"})")};
  now.replicas = {ordered_json::parse(R"({"id":"r-1","model":"large","state":"ready","in_state_ms":62000,
      "node":"local","devices":["4","5"],"outstanding_requests":9,"reason":"it answers"})")};
  now.jobs = {ordered_json::parse(R"({"id":"tune-1","work":"training","state":"saving","since":
      "2027-01-15T07:59:30Z","members":2,"max_members":6,"devices":2,"attempt":3,"reason":"makes room"})")};
  now.nodes = {ordered_json::parse(R"({"name":"local","health":"healthy","kind":"h100","devices":5,"free":1,
      "each":[{"healthy":true,"held_by":[]},{"healthy":true,"held_by":["tune-1"]},
              {"healthy":true,"held_by":["r-1"]},{"healthy":false,"held_by":[]},
              {"healthy":true,"held_by":["tune-1","other"]}]})")};
  now.actions = {ordered_json::parse(R"({"seq":7,"time_us":1799999996000000,"action":"job.resize",
      "subject":"tune-1","detail":{"reason":"continues with 2"}})")};
  return now;
}

std::vector<std::string> Drawn(const Standing& standing) {
  std::vector<std::string> lines;
  for (const Line& line : FrameOf(standing)) lines.push_back(Draw(line, 0, 0, false));
  return lines;
}
std::string Joined(const Standing& standing) {
  std::string all;
  for (const std::string& line : Drawn(standing)) all += line + "\n";
  return all;
}

TEST(TopFrame, ShowsModelsReplicasJobsDevicesAndActions) {
  const std::string frame = Joined(Loop());
  EXPECT_THAT(frame, HasSubstr("5 devices: 2 with replicas, 2 with jobs, 1 free"));
  EXPECT_THAT(frame, testing::ContainsRegex("A  large +████████ +1.10  1 ready, 1 starting +2 +3 +9 +6.0 "
                                            "+0.0 +288 +1.23s +4.60s +41ms  demand"));
  EXPECT_THAT(frame, testing::ContainsRegex("B  plain +- +- +- +- +0 +0 "));
  EXPECT_THAT(frame, HasSubstr("\nlarge: no place for one\n"));
  EXPECT_THAT(frame, testing::ContainsRegex("A  r-1 +ready +1m02s +local +4,5 +9  it answers"));
  EXPECT_THAT(frame, testing::ContainsRegex("a  tune-1 +training +saving +30s +2 of 6 +2 +3  makes room"));
  EXPECT_THAT(frame, testing::ContainsRegex("local +healthy +h100 +1 of 5  · a A x a\\+\n"));
  EXPECT_THAT(frame, testing::ContainsRegex("4.00s +7  job.resize  tune-1  continues with 2"));
}

TEST(TopFrame, AReplicaOfSeveralMembersShowsTheNodesOfAllOfThem) {
  Standing now = Loop();
  const auto with = [&](int members) {
    now.replicas[0]["members"] = ordered_json::array();
    for (int i = 1; i <= members; ++i)
      now.replicas[0]["members"].push_back({{"node", "n" + std::to_string(i)}, {"devices", {"4", "5"}}});
    return Joined(now);
  };
  EXPECT_THAT(with(2), testing::ContainsRegex("r-1 +ready +1m02s +n1 \\+ n2 +4,5 \\+ 4,5 +9  it answers"));
  EXPECT_THAT(with(5), HasSubstr("n1 + n2 + n3 + 2 more"));
  EXPECT_THAT(with(1), testing::ContainsRegex("r-1 +ready +1m02s +local +4,5 +9"));
}

TEST(TopFrame, SaysWhyThereAreNoActionsAndWhatIsDegraded) {
  Standing now = Loop();
  now.actions.clear();
  now.no_actions = "this needs the role operator";
  now.degraded = {"ledger: the disk is full"};
  EXPECT_THAT(Drawn(now), AllOf(testing::Contains("Last actions: this needs the role operator"),
                                testing::Contains("degraded: ledger: the disk is full")));
}

Standing WithoutScaling() {
  Standing now{.where = "http://gw:9090"};
  now.traffic = Loop().traffic;
  now.endpoints = {
      ordered_json::parse(R"({"id":"large@a","model":"large","name":"a","engine":"vllm","health":"up",
          "breaker":"closed","resting":false,"unused_because":null,"outstanding_requests":9,
          "outstanding_tokens":4096})"),
      ordered_json::parse(R"({"id":"plain@b","model":"plain","name":"b","engine":"openai","health":"unknown",
          "breaker":"half_open","resting":false,"unused_because":"its breaker is open","outstanding_requests":0,
          "outstanding_tokens":0})")};
  return now;
}

TEST(TopFrame, AGatewayWithoutSchedulingShowsItsEndpointsTheirHealthAndBreakers) {
  const std::string frame = Joined(WithoutScaling());
  EXPECT_THAT(frame, AllOf(HasSubstr("plain"), Not(HasSubstr("NODE")), Not(HasSubstr("JOB"))));
  EXPECT_THAT(frame, AllOf(Not(HasSubstr("WANTED")), Not(HasSubstr("DEMAND")))) << "nobody scales";
  EXPECT_THAT(frame, testing::ContainsRegex("A  a +up +closed +vllm +9 +4096  -\n"));
  EXPECT_THAT(frame, testing::ContainsRegex("B  b +unknown +half open +openai +0 +0  its breaker is open\n"));
}

TEST(TopFrame, EndpointsOfScaledModelsAreTheirReplicas) {
  Standing now = Loop();
  now.endpoints = WithoutScaling().endpoints;
  EXPECT_THAT(Joined(now), Not(testing::ContainsRegex("A  a +up")));
  EXPECT_THAT(Joined(now), testing::ContainsRegex("B  b +unknown"));
}

TEST(TopFrame, EightyColumnsHoldWholeWords) {
  Standing now = Loop();
  now.degraded = {
      "ledger: the disk is full, and nothing more can be recorded until somebody frees some of it"};
  now.scaling[0]["reason"] =
      "the demand of the last minute is above what one replica serves within the objective for first tokens";
  now.endpoints = WithoutScaling().endpoints;
  const auto columns = [](const std::string& line) {
    return std::ranges::count_if(line, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
  };
  std::string all;
  for (const Line& line : FrameOf(now, 80)) {
    const std::string drawn = Draw(line, 0, 0, false);
    EXPECT_LE(columns(drawn), 80) << drawn;
    all += drawn + "\n";
  }
  EXPECT_THAT(all, testing::ContainsRegex("MODEL +REPLICAS.*TOK/S +TTFT P50"));
  EXPECT_THAT(all, HasSubstr("1 ready, 1 starting"));
  EXPECT_THAT(all,
              HasSubstr("\n    the demand of the last minute is above what one replica serves within the\n"
                        "    objective for first tokens\n"));
  EXPECT_THAT(all, HasSubstr("degraded: ledger: the disk is full, and nothing more can be recorded until\n"
                             "somebody frees some of it\n"));
}

TEST(TopFrame, ControlCharactersAreReplaced) {
  Standing now = Loop();
  now.replicas[0]["reason"] =
      "bad\033[2J\r\n\x07 engine \xC2\x9B"
      "1m";
  now.jobs[0]["id"] = "t\033]0;x";
  now.jobs[0]["name"] = "good\u202Elive";
  const std::string frame = Joined(now);
  EXPECT_THAT(frame, Not(HasSubstr("\033")));
  EXPECT_THAT(frame, Not(HasSubstr("\x07")));
  EXPECT_THAT(frame, Not(HasSubstr("\xC2\x9B")));
  EXPECT_THAT(frame, Not(HasSubstr("\u202E"))) << "it would show the row from right to left";
  EXPECT_THAT(frame, HasSubstr("bad [2J    engine  1m"));
}

TEST(TopFrame, ALineIsCutByCharactersAndColoursCountForNone) {
  const Line line = {{.text = "ab·d"}, {"efg", Style::kBad}, {.text = "hi"}};
  EXPECT_EQ(Draw(line, 0, 0, false), "ab·defghi");
  EXPECT_EQ(Draw(line, 2, 3, false), "·de");
  EXPECT_EQ(Draw(line, 3, 3, true), "d\033[31mef\033[0m");
  EXPECT_EQ(Draw(line, 20, 3, true), "");
}

TEST(TopFrame, DurationsAreShort) {
  using std::chrono::milliseconds;
  const std::vector<std::pair<int64_t, std::string>> rows = {
      {-5, "0ms"},        {999, "999ms"},       {1'200, "1.20s"},      {59'999, "59s"},
      {200'000, "3m20s"}, {7'500'000, "2h05m"}, {273'600'000, "3d04h"}};
  for (const auto& [ms, text] : rows) EXPECT_EQ(ShortDuration(milliseconds(ms)), text);
}

TEST(TopKeys, AreReadFromTheBytesOfATerminal) {
  const std::vector<std::tuple<std::string, Key, size_t>> rows = {
      {"q", Key::kQuit, 1},         {"\033[A", Key::kUp, 3},       {"\033OBq", Key::kDown, 3},
      {"\033[5~", Key::kPageUp, 4}, {"\033[1;5Cq", Key::kNone, 6}, {"\033", Key::kNone, 1},
      {"x", Key::kNone, 1},         {"", Key::kNone, 0},           {"\033[", Key::kNone, 2}};
  for (const auto& [sent, key, bytes] : rows) {
    EXPECT_EQ(ReadKey(sent).key, key) << sent.substr(1);
    EXPECT_EQ(ReadKey(sent).bytes, bytes) << sent.substr(sent.empty() ? 0 : 1);
  }
}

TEST(CliTop, NamesWhatIsMissing) {
  tests::TempDir folder;
  std::ofstream(folder / "key") << "tg-secretsecret\n";
  const auto top = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"top", "--admin", "http://127.0.0.1:1", "--key-file", folder / "key"};
    args.insert(args.end(), more.begin(), more.end());
    return tests::RunCli(args);
  };
  for (const char* how : {"--once", "--json"}) {
    const tests::CliResult refused = top({how});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("127.0.0.1:1 does not answer"), Not(HasSubstr("secretsecret"))));
  }
  const tests::CliResult no_terminal = top({});
  EXPECT_EQ(no_terminal.code, 2);
  EXPECT_THAT(no_terminal.err, HasSubstr("--once"));
}

}  // namespace
}  // namespace gateway::cli
