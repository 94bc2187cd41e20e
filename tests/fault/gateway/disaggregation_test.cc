// Pools that compute prompts apart from answers, over real engines that hand them over as vLLM or as SGLang
// do.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

enum class EngineKind : uint8_t { kVllm, kSglang };

using Flags = std::vector<std::string>;

const Flags kUsual = {"--preset", "demo", "--load-time", "0s"};
const Flags kSlow = {"--preset", "demo", "--load-time", "0s", "--prefill-rate", "1000"};

// A prompt of some 16 kB that begins like no other.
std::string Long(int number) {
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += fmt::format("{} ", number * 1'000'003 + i * 7'919);
  return text;
}

Json Turn(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

Json Body(const std::string& content, const Json& more = Json::object()) {
  Json body = {{"model", "split"}, {"messages", Json::array({Turn("user", content)})}, {"max_tokens", 4}};
  body.update(more);
  return body;
}

std::string Request(const Json& body) {
  return Post("/v1/chat/completions", body.dump());
}

// Two engines that prefill, p0 and p1, and two that decode, d0 and d1, behind the model `split`.
class Pool {
 public:
  explicit Pool(EngineKind kind, const Flags& prefill = {}, const Flags& decode = {},
                std::string_view more = "") {
    for (int i = 0; i < 2; ++i) {
      prefills.push_back(Engine(kind, "prefill", prefill));
      decodes.push_back(Engine(kind, "decode", decode));
    }
    std::string endpoints;
    for (int i = 0; i < 2; ++i) {
      const uint16_t prefill_port = prefills[static_cast<size_t>(i)]->port();
      const std::string bootstrap =
          kind == EngineKind::kSglang ? fmt::format(", bootstrap_port: {}", prefill_port) : "";
      endpoints += Endpoint(kind, fmt::format("p{}", i), "prefill" + bootstrap, prefill_port) + ", ";
      endpoints += Endpoint(kind, fmt::format("d{}", i), "decode", decodes[static_cast<size_t>(i)]->port()) +
                   (i == 0 ? ", " : "");
    }
    gateway = std::make_unique<GatewayProcess>(GatewayConfig{
        .replicas = {decodes[0]->port()},
        .models = fmt::format("  - {{name: split, price: {{input: 1, cached_input: 0.5, output: 2}}, "
                              "retries: {{budget: 1, min_per_minute: 1000}}, health: {{probe: false}}, "
                              "endpoints: [{}]{}}}\n",
                              endpoints, more)});
  }

  Answer Ask(const Json& body) const { return gateway->Ask(Request(body)); }
  Answer AskLong(int number, const Json& more = Json::object()) const {
    return Ask(Body(Long(number), more));
  }

  uint64_t OfPrefills(const char* pointer) const {
    return prefills[0]->Stat(pointer) + prefills[1]->Stat(pointer);
  }
  uint64_t OfDecodes(const char* pointer) const {
    return decodes[0]->Stat(pointer) + decodes[1]->Stat(pointer);
  }
  EngineProcess& Named(const std::string& name) const {
    return *(name.front() == 'p' ? prefills : decodes)[name.back() == '0' ? 0 : 1];
  }
  double Metric(const char* name) const {
    return gateway->Metric(fmt::format("{}{{model=\"split\"}}", name)).value_or(-1);
  }
  // Nothing is charged to anybody any more.
  bool Settles() const {
    if (!gateway->Settles()) return false;
    for (const char* name : {"p0", "p1", "d0", "d1"}) {
      const std::string series =
          fmt::format(R"(tidegate_replica_outstanding_requests{{model="split",replica="{}"}})", name);
      if (!Within(RawClient::kPatience, [&] { return gateway->Metric(series) == 0.0; })) return false;
    }
    return true;
  }

  std::vector<std::unique_ptr<EngineProcess>> prefills;
  std::vector<std::unique_ptr<EngineProcess>> decodes;
  std::unique_ptr<GatewayProcess> gateway;

 private:
  static std::unique_ptr<EngineProcess> Engine(EngineKind kind, const char* role, Flags flags) {
    flags.insert(flags.end(), {"--role", role, "--handover", kind == EngineKind::kVllm ? "nixl" : "bootstrap",
                               "--handover-wait", "5s"});
    return std::make_unique<EngineProcess>(std::move(flags));
  }
  static std::string Endpoint(EngineKind kind, const std::string& name, const std::string& role,
                              uint16_t port) {
    return fmt::format("{{name: {}, url: http://127.0.0.1:{}, engine: {}, model: chat-small, role: {}}}",
                       name, port, kind == EngineKind::kVllm ? "vllm" : "sglang", role);
  }
};

struct Disaggregation : testing::TestWithParam<EngineKind> {};

INSTANTIATE_TEST_SUITE_P(Engines, Disaggregation, testing::Values(EngineKind::kVllm, EngineKind::kSglang),
                         [](const auto& of) { return of.param == EngineKind::kVllm ? "vllm" : "sglang"; });

TEST_P(Disaggregation, ALongPromptIsComputedByAPrefillReplicaAndAnsweredByADecodeReplica) {
  const Pool pool(GetParam());
  const Answer answer = pool.AskLong(1);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("x-tidegate-replica").front(), 'd');
  EXPECT_EQ(answer.header("x-tidegate-prefill").front(), 'p');
  EXPECT_EQ(pool.OfPrefills("/handover/offered"), 1);
  EXPECT_EQ(pool.OfPrefills("/handover/taken"), 1);
  EXPECT_EQ(pool.OfDecodes("/handover/received"), 1);
  EXPECT_EQ(pool.OfDecodes("/handover/recomputed"), 0);
  EXPECT_EQ(pool.OfDecodes("/requests/completed"), 1);
  EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 4);
  const gateway::ledger::Record close = pool.gateway->CloseOf(answer.header("x-request-id"));
  EXPECT_EQ(close.replica, answer.header("x-tidegate-replica"));
  EXPECT_EQ(close.prefill, answer.header("x-tidegate-prefill"));
  EXPECT_EQ(close.input, answer.json()["usage"]["prompt_tokens"]);
  EXPECT_EQ(close.output, 4) << "the token of the prefill replica is nobody's";
  EXPECT_EQ(close.cached, 0) << "every token of it was computed";
  EXPECT_TRUE(pool.Settles());
  EXPECT_EQ(pool.Metric("tidegate_prompts_handed_over_total"), 1);
  EXPECT_EQ(pool.Metric("tidegate_prompts_not_handed_over_total"), 0);
}

TEST_P(Disaggregation, AStreamIsTheDecodeReplicas) {
  const Pool pool(GetParam());
  RawClient client = pool.gateway->Connect();
  ASSERT_TRUE(client.Send(Request(Body(Long(1), {{"stream", true}}))));
  const Answer head = client.ReadHead();
  ASSERT_EQ(head.status, 200);
  EXPECT_EQ(head.header("x-tidegate-replica").front(), 'd');
  int events = 0;
  while (client.ReadEvent()) ++events;
  EXPECT_TRUE(client.ended());
  EXPECT_GE(events, 5);
  EXPECT_EQ(pool.OfDecodes("/handover/received"), 1);
  const gateway::ledger::Record close = pool.gateway->CloseOf(head.header("x-request-id"));
  EXPECT_EQ(close.output, 4);
  EXPECT_EQ(close.source, "upstream");
  EXPECT_EQ(close.prefill.front(), 'p');
  EXPECT_TRUE(pool.Settles());
}

TEST_P(Disaggregation, PromptsSpreadOverReplicasAndKeepToTheirOwn) {
  const Pool pool(GetParam(), kUsual, kUsual);
  std::set<std::string> prefills, decodes;
  std::vector<Answer> firsts;
  // Of replicas that are as good as each other one is drawn.
  for (int i = 0; i < 64 && (firsts.size() < 4 || prefills.size() < 2 || decodes.size() < 2); ++i) {
    const Answer answer = firsts.emplace_back(pool.AskLong(i));
    ASSERT_EQ(answer.status, 200) << answer.body;
    prefills.insert(answer.header("x-tidegate-prefill"));
    decodes.insert(answer.header("x-tidegate-replica"));
  }
  EXPECT_THAT(prefills, testing::ElementsAre("p0", "p1"));
  EXPECT_THAT(decodes, testing::ElementsAre("d0", "d1"));
  for (size_t i = 0; i < firsts.size(); ++i) {
    const Answer again = pool.AskLong(static_cast<int>(i));
    ASSERT_EQ(again.status, 200) << again.body;
    // vLLM's decode replica has kept the prompt, SGLang's is handed it once more by whoever computed it.
    const bool transferred = GetParam() == EngineKind::kSglang;
    const char* holder = transferred ? "x-tidegate-prefill" : "x-tidegate-replica";
    EXPECT_EQ(again.header(holder), firsts[i].header(holder)) << i;
    EXPECT_EQ(again.header("x-tidegate-prefill").empty(), !transferred) << i;
  }
}

TEST_P(Disaggregation, RequestsSucceedWithoutAPrefillReplica) {
  const Pool pool(GetParam());
  pool.prefills[0]->Kill();
  for (int i = 0; i < 6; ++i) {
    const Answer answer = pool.AskLong(i);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-prefill"), "p1");
  }
  EXPECT_EQ(pool.OfDecodes("/handover/received"), 6);
  EXPECT_TRUE(pool.Settles());
}

TEST_P(Disaggregation, RequestsSucceedWithoutADecodeReplica) {
  const Pool pool(GetParam());
  pool.decodes[0]->Kill();
  for (int i = 0; i < 6; ++i) {
    const Answer answer = pool.AskLong(i, {{"stream", i % 2 == 0}});
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-replica"), "d1");
  }
  EXPECT_EQ(pool.decodes[1]->Stat("/handover/received"), 6);
  EXPECT_TRUE(pool.Settles());
}

TEST_P(Disaggregation, ADecodeReplicaThatFailsWithThePromptInHandIsReplacedFromTheStart) {
  for (const char* kind : {"500", "drop"}) {
    const Pool pool(GetParam());
    pool.decodes[0]->Fault({{"kind", kind}, {"api", "chat"}});
    for (int i = 0; i < 4; ++i) {
      const Answer answer = pool.AskLong(i);
      EXPECT_EQ(answer.status, 200) << kind << answer.body;
      EXPECT_EQ(answer.header("x-tidegate-replica"), "d1");
      EXPECT_EQ(answer.header("x-tidegate-prefill").front(), 'p');
    }
    EXPECT_TRUE(pool.Settles()) << kind;
  }
}

TEST_P(Disaggregation, APrefillReplicaThatDiesWithThePromptInHandIsReplaced) {
  const Pool pool(GetParam(), kSlow);
  RawClient client = pool.gateway->Connect();
  ASSERT_TRUE(client.Send(Request(Body(Long(1), {{"stream", true}}))));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return pool.OfPrefills("/running") == 1; }));
  const size_t first = pool.prefills[0]->Stat("/running") == 1 ? 0 : 1;
  pool.prefills[first]->Kill();
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.header("x-tidegate-prefill"), first == 0 ? "p1" : "p0");
  EXPECT_TRUE(pool.Settles());
}

TEST_P(Disaggregation, AClientThatLeavesDuringThePrefillEndsIt) {
  const Pool pool(GetParam(), kSlow, kSlow);
  RawClient client = pool.gateway->Connect();
  ASSERT_TRUE(client.Send(Request(Body(Long(1), {{"stream", true}}))));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return pool.OfPrefills("/running") == 1; }));
  client.Close();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return pool.OfPrefills("/requests/cancelled") == 1; }));
  if (GetParam() == EngineKind::kSglang) {
    EXPECT_TRUE(Within(RawClient::kPatience, [&] { return pool.OfDecodes("/requests/cancelled") == 1; }));
  } else {
    EXPECT_EQ(pool.OfDecodes("/requests/received"), 0);
  }
  EXPECT_TRUE(pool.Settles());
}

TEST_P(Disaggregation, WhereAPromptIsComputedIsNotForCallersToSay) {
  const Pool pool(GetParam());
  for (const char* name : {"kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room"}) {
    const Answer answer = pool.Ask(Body("Hello.", {{name, nullptr}}));
    EXPECT_EQ(answer.status, 400) << name;
  }
  EXPECT_EQ(pool.OfDecodes("/requests/received"), 0);
}

TEST_P(Disaggregation, ErrorsOfARequestReachTheClient) {
  const Pool pool(GetParam());
  const Answer answer = pool.AskLong(1, {{"temperature", -1}});
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_THAT(answer.body, testing::HasSubstr("temperature"));
  EXPECT_TRUE(pool.Settles());
}

// --- vLLM's: a decode replica can do all of it. ---

TEST(Vllm, BothRequestsMatchItsConnector) {
  const Pool pool(EngineKind::kVllm);
  const Answer answer = pool.AskLong(1, {{"stream", true},
                                         {"stream_options", {{"include_usage", true}}},
                                         {"min_tokens", 2},
                                         {"max_completion_tokens", 7},
                                         {"unknown_to_us", "kept"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto sent_to = [&](const std::string& name) {
    const Json last = pool.Named(name).Stats()["last_request"];
    return Json::parse(last["body"].get<std::string>());
  };
  const Json first = sent_to(answer.header("x-tidegate-prefill"));
  EXPECT_EQ(first["max_tokens"], 1);
  EXPECT_EQ(first["max_completion_tokens"], 1);
  EXPECT_EQ(first["min_tokens"], 0);
  EXPECT_EQ(first["stream"], false);
  EXPECT_TRUE(first["stream_options"].is_null());
  EXPECT_EQ(first["unknown_to_us"], "kept");
  EXPECT_EQ(first["kv_transfer_params"], Json::parse(R"({"do_remote_decode": true, "do_remote_prefill": false,
      "remote_engine_id": null, "remote_block_ids": null, "remote_host": null, "remote_port": null})"));
  const Json second = sent_to(answer.header("x-tidegate-replica"));
  EXPECT_EQ(second["max_tokens"], 4);
  EXPECT_EQ(second["max_completion_tokens"], 7);
  EXPECT_EQ(second["min_tokens"], 2);
  EXPECT_EQ(second["stream"], true);
  EXPECT_EQ(second["messages"], first["messages"]);
  EXPECT_EQ(second["kv_transfer_params"]["do_remote_prefill"], true);
  EXPECT_EQ(second["kv_transfer_params"]["remote_port"],
            pool.Named(answer.header("x-tidegate-prefill")).port());
  EXPECT_GT(second["kv_transfer_params"]["remote_block_ids"].size(), 100u);
}

TEST(Vllm, AShortPromptMakesNoHop) {
  const Pool pool(EngineKind::kVllm);
  for (int i = 0; i < 8; ++i) {
    const Answer answer = pool.Ask(Body(fmt::format("{}: hello.", i)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("x-tidegate-replica").front(), 'd');
    EXPECT_EQ(answer.header("x-tidegate-prefill"), "");
  }
  EXPECT_EQ(pool.OfPrefills("/requests/received"), 0);
}

TEST(Vllm, TheNextTurnMakesNoHopWhereItsBeginningIsHeld) {
  const Pool pool(EngineKind::kVllm);
  for (int conversation = 0; conversation < 3; ++conversation) {
    Json body = Body(Long(conversation));
    const Answer first = pool.Ask(body);
    EXPECT_EQ(first.header("x-tidegate-prefill").front(), 'p');
    body["messages"].push_back(Turn("assistant", "Quite so."));
    body["messages"].push_back(Turn("user", "And then?"));
    const Answer second = pool.Ask(body);
    EXPECT_EQ(second.status, 200);
    EXPECT_EQ(second.header("x-tidegate-replica"), first.header("x-tidegate-replica"));
    EXPECT_EQ(second.header("x-tidegate-prefill"), "");
    EXPECT_GT(second.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 1'000);
  }
  EXPECT_EQ(pool.OfPrefills("/requests/received"), 3);
}

TEST(Vllm, WithoutAnyPrefillReplicaTheDecodeReplicaComputes) {
  for (const char* kind : {"500", "429", "drop", "bad-json"}) {
    const Pool pool(EngineKind::kVllm);
    for (const auto& prefill : pool.prefills) prefill->Fault({{"kind", kind}, {"api", "chat"}});
    const Answer answer = pool.AskLong(1);
    EXPECT_EQ(answer.status, 200) << kind << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-prefill"), "");
    EXPECT_EQ(pool.OfPrefills("/requests/received"), 2) << kind << ": each is asked once";
    EXPECT_EQ(pool.OfDecodes("/handover/received"), 0);
    EXPECT_TRUE(pool.Settles());
    EXPECT_EQ(pool.Metric("tidegate_prompts_not_handed_over_total"), 1) << kind;
  }
}

TEST(Vllm, APrefillReplicaThatNeverAnswersCostsItsTime) {
  const Pool pool(EngineKind::kVllm, {}, {}, ", timeouts: {first_byte: 400ms}");
  for (const auto& prefill : pool.prefills) prefill->Fault({{"kind", "hang"}, {"api", "chat"}});
  const Answer answer = pool.AskLong(1);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("x-tidegate-prefill"), "");
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return pool.OfPrefills("/requests/cancelled") == 2; }));
  EXPECT_TRUE(pool.Settles());
}

TEST(Vllm, PrefillReplicasServeWholeRequestsIfNoOtherCan) {
  const Pool pool(EngineKind::kVllm);
  for (const auto& decode : pool.decodes) decode->Kill();
  for (int i = 0; i < 3; ++i) {
    const Answer answer = pool.Ask(Body(fmt::format("{}: hello.", i)));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-replica").front(), 'p');
  }
  EXPECT_TRUE(pool.Settles());
  EXPECT_EQ(pool.Metric("tidegate_answers_by_prefill_total"), 3);
}

TEST(Vllm, AReleasedPromptIsComputedAgain) {
  const Pool pool(EngineKind::kVllm, {"--handover-hold", "0s"});
  const Answer answer = pool.AskLong(1);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(pool.OfDecodes("/handover/recomputed"), 1);
  EXPECT_EQ(pool.OfDecodes("/handover/received"), 0);
}

TEST(Vllm, ATranslatedApiUsesThePrefillReplicaToo) {
  const Pool pool(EngineKind::kSglang);  // which does not know it
  const Answer answer = pool.gateway->Ask(
      Post("/v1/messages",
           Json{{"model", "split"}, {"max_tokens", 4}, {"messages", Json::array({Turn("user", Long(1))})}}
               .dump()));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("x-tidegate-prefill").front(), 'p');
  EXPECT_EQ(pool.OfDecodes("/handover/received"), 1);
}

// --- SGLang's: every request takes two. ---

TEST(Sglang, AShortPromptTakesBothToo) {
  const Pool pool(EngineKind::kSglang);
  const Answer answer = pool.Ask(Body("Hello."));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("x-tidegate-prefill").front(), 'p');
  EXPECT_EQ(pool.OfDecodes("/handover/received"), 1);
}

TEST(Sglang, BothRequestsNameTheRoom) {
  const Pool pool(EngineKind::kSglang);
  const Answer answer = pool.Ask(Body("Hello.", {{"stream", true}}));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto sent_to = [&](const std::string& name) {
    const Json last = pool.Named(name).Stats()["last_request"];
    return Json::parse(last["body"].get<std::string>());
  };
  const Json first = sent_to(answer.header("x-tidegate-prefill"));
  EXPECT_EQ(first, sent_to(answer.header("x-tidegate-replica")));
  EXPECT_EQ(first["bootstrap_host"], "127.0.0.1");
  EXPECT_EQ(first["bootstrap_port"], pool.Named(answer.header("x-tidegate-prefill")).port());
  EXPECT_LT(first["bootstrap_room"].get<uint64_t>(), uint64_t{1} << 63);
}

TEST(Sglang, WithoutAnyPrefillReplicaThereIsNoAnswer) {
  const Pool pool(EngineKind::kSglang);
  for (const auto& prefill : pool.prefills) prefill->Fault({{"kind", "500"}, {"api", "chat"}});
  const Answer answer = pool.AskLong(1);
  EXPECT_EQ(answer.status, 502) << answer.body;
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return pool.OfDecodes("/running") == 0; }));
  EXPECT_TRUE(pool.Settles());
}

}  // namespace
}  // namespace tests
