// LoRA adapters over real engines: where their requests go, which adapters the gateway takes engines to have
// loaded, and requests for adapters that an engine lacks.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "tests/fault/gateway/queued.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Serving(std::string_view loras, int slots, std::string_view load = "40ms") {
  return {"--lora",      std::string(loras), "--max-loras", std::to_string(slots),
          "--lora-load", std::string(load)};
}

// Models a, b, …, each an adapter of chat-small that engines call a-lora, b-lora, ….
std::string Adapters(std::string_view names, std::string_view more = {}) {
  std::string models;
  for (const char name : names) {
    models +=
        fmt::format("  - {{name: {0}, lora: {{base: chat-small, adapter: {0}-lora}}{1}}}\n", name, more);
  }
  return models;
}

std::string Text(int i) {
  std::string text;
  for (int n = 0; n < 40; ++n) text += fmt::format("{} ", i * 1'000'003 + n * 7'919);
  return text;
}

std::string For(std::string_view model, int i, Json more = Json::object()) {
  more["model"] = model;
  more["messages"] = {{{"role", "user"}, {"content", Text(i)}}};
  if (!more.contains("max_tokens")) more["max_tokens"] = 2;
  return Chat(more);
}

struct Lora : Queued {
  using Queued::Queued;
  // What the gateway takes an endpoint to have.
  Json At(const std::string& endpoint) const {
    const Answer answer = gateway.AskAdmin(Get("/admin/v1/endpoints", Credentials()));
    const Json all = answer.json();
    for (const Json& one : all["data"]) {
      if (one["name"] == endpoint) return one["adapters"];
    }
    return nullptr;
  }
  bool Knows(const std::string& endpoint, const Json& slots) const {
    return Within(RawClient::kPatience, [&] { return At(endpoint)["slots"] == slots; });
  }
};

uint64_t Loads(const std::vector<const EngineProcess*>& engines) {
  uint64_t loads = 0;
  for (const EngineProcess* engine : engines) loads += engine->Stat("/lora/loads");
  return loads;
}

struct Affinity {
  const char* policy;
  uint64_t least;
  uint64_t most;
};

struct KeepingTo : testing::TestWithParam<Affinity> {};

TEST_P(KeepingTo, WhereAnAdapterIsLoaded) {
  const std::vector<std::string> flags = Serving("a-lora,b-lora,c-lora,d-lora,e-lora,f-lora", 2);
  const EngineProcess r0(flags);
  const EngineProcess r1(flags);
  const EngineProcess r2(flags);
  const Lora lora({.replicas = {r0.port(), r1.port(), r2.port()},
                   .model = fmt::format("routing: {{policy: {}}}", GetParam().policy),
                   .models = Adapters("abcdef")});
  for (const char* endpoint : {"r0", "r1", "r2"}) ASSERT_TRUE(lora.Knows(endpoint, 2)) << lora.At(endpoint);
  for (int i = 0; i < 96; ++i) {
    const std::string model(1, static_cast<char>('a' + (i * 5 + i / 6) % 6));
    const Answer answer = lora.gateway.Ask(For(model, i, {{"stream", i % 3 != 0}}));
    ASSERT_EQ(answer.status, 200) << answer.body;
  }
  const uint64_t loads = Loads({&r0, &r1, &r2});
  RecordProperty("loads", static_cast<int>(loads));
  EXPECT_GE(loads, GetParam().least);
  EXPECT_LE(loads, GetParam().most);
}

INSTANTIATE_TEST_SUITE_P(Policies, KeepingTo,
                         testing::Values(Affinity{"cost", 6, 8}, Affinity{"epp", 6, 12},
                                         Affinity{"least-load", 24, 96}),
                         [](const auto& one) {
                           std::string name = one.param.policy;
                           std::erase(name, '-');
                           return name;
                         });

TEST(LoraAdapters, AreModelsOfTheirOwnForCallersAndBilling) {
  const EngineProcess engine(Serving("a-lora,b-lora", 2));
  const Lora lora(
      {.replicas = {engine.port()},
       .models = Adapters("a", ", aliases: [sql], price: {input: 10, output: 20}") + Adapters("b")});
  std::map<std::string, uint64_t> generated;
  for (int i = 0; i < 6; ++i) {
    const std::string model = i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "chat-small";
    const uint64_t before = engine.Stat("/tokens/generated");
    const Answer answer = lora.gateway.Ask(
        For(model, i, {{"max_tokens", 5 + i}, {"ignore_eos", true}, {"stream", i % 2 == 0}}));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(engine.Stats()["last_request"]["body"].get<std::string>())["model"],
              model == "chat-small" ? model : model + "-lora");
    generated[model] += engine.Stat("/tokens/generated") - before;
  }
  ASSERT_TRUE(lora.gateway.Settles());
  std::map<std::string, uint64_t> metered;
  std::map<std::string, std::string> served;
  for (const Record& record : lora.gateway.Records()) {
    if (record.kind != Kind::kClose) continue;
    metered[record.model] += static_cast<uint64_t>(record.output);
    served[record.model] = record.served_model;
    const int64_t price = record.model == "a" ? 10 : 1;  // of a million tokens; of output twice that
    EXPECT_EQ(record.cost_micro_usd, price * (record.input + 2 * record.output)) << record.model;
  }
  EXPECT_EQ(metered, generated);
  EXPECT_EQ(served, (std::map<std::string, std::string>{
                        {"a", "a-lora"}, {"b", "b-lora"}, {"chat-small", "chat-small"}}));

  const Json models = lora.gateway.Ask(Get("/v1/models")).json()["data"];
  std::map<std::string, Json> cards;
  for (const Json& card : models) cards[card["id"]] = {card["root"], card["parent"]};
  EXPECT_EQ(cards["chat-small"], Json::parse(R"(["chat-small", null])"));
  EXPECT_EQ(cards["a"], Json::parse(R"(["a", "chat-small"])"));
  EXPECT_EQ(cards["sql"], Json::parse(R"(["a", "chat-small"])"));
  const Answer admin = lora.gateway.AskAdmin(Get("/admin/v1/models", Lora::Credentials()));
  EXPECT_EQ(admin.json()["data"][1]["lora"], Json::parse(R"({"base": "chat-small", "adapter": "a-lora"})"));
  EXPECT_EQ(admin.json()["data"][1]["price"]["input"], "10");
  EXPECT_EQ(admin.json()["data"][2]["price"]["input"], "1") << "the base's";
}

TEST(LoraAdapters, WaitInTheQueueOfTheirBase) {
  std::vector<std::string> flags = Paced("5ms");
  flags.insert(flags.end(), {"--lora", "a-lora"});
  const EngineProcess engine(flags);
  const Lora lora({.replicas = {engine.port()}, .model = "queue: {max_running: 1}", .models = Adapters("a")});
  RawClient holder = lora.Holder();
  std::vector<RawClient> waits = lora.Sent(1, For("a", 1));
  ASSERT_TRUE(lora.Waiting(1));
  EXPECT_EQ(engine.Stat("/requests/received"), 1u);
  holder.Close();
  EXPECT_EQ(waits[0].Read().status, 200);
}

TEST(LoraAdapters, AReplicaWithoutTheAdapterIsSkippedAndCountsAsHealthy) {
  const EngineProcess lacks;
  const EngineProcess has(Serving("a-lora", 1));
  const Lora lora({.replicas = {lacks.port(), has.port()}, .models = Adapters("a")});
  for (int i = 0; i < 12; ++i) {
    const Answer answer = lora.gateway.Ask(For("a", i));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-replica"), "r1");
  }
  EXPECT_LE(lacks.Stat("/requests/refused"), 1u);
  EXPECT_EQ(lora.gateway.Metric(
                R"(tidegate_replica_breaker_phase{model="chat-small",replica="r0",phase="closed"})"),
            1.0);
  if (lacks.Stat("/requests/refused") == 1) {
    EXPECT_THAT(lora.At("r0")["lacking"], ElementsAre("a-lora"));
  }
}

TEST(LoraAdapters, AnAdapterWithoutReplicaIsNotFoundOrServedByAFallback) {
  const EngineProcess engines[2];
  const Lora lora({.replicas = {engines[0].port(), engines[1].port()},
                   .models = Adapters("a") + Adapters("b", ", fallbacks: [chat-small]")});
  const Answer unknown = lora.gateway.Ask(For("a", 1));
  EXPECT_EQ(unknown.status, 404) << unknown.body;
  EXPECT_THAT(unknown.body, HasSubstr("a-lora"));
  for (int i = 0; i < 4; ++i) {
    const Answer fallback = lora.gateway.Ask(For("b", i));
    EXPECT_EQ(fallback.status, 200) << fallback.body;
  }
}

TEST(LoraAdapters, ARestartedEngineCountsAsHavingNoAdapterLoaded) {
  const std::vector<std::string> flags = Serving("a-lora,b-lora", 2);
  EngineProcess engines[2] = {EngineProcess(flags), EngineProcess(flags)};
  const Lora lora({.replicas = {engines[0].port(), engines[1].port()}, .models = Adapters("ab")});
  for (const char* endpoint : {"r0", "r1"}) ASSERT_TRUE(lora.Knows(endpoint, 2));
  const Answer first = lora.gateway.Ask(For("a", 1));
  ASSERT_EQ(first.status, 200) << first.body;
  const std::string home = first.header("x-tidegate-replica");
  const auto has_loaded = [&](const std::string& replica) {
    return Within(RawClient::kPatience,
                  [&] { return lora.At(replica)["loaded"] == Json::array({"a-lora"}); });
  };
  EXPECT_TRUE(has_loaded(home)) << lora.At(home);
  EngineProcess& engine = engines[home == "r0" ? 0 : 1];
  engine.Kill();
  engine.Start();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return lora.At(home)["loaded"].empty(); })) << lora.At(home);
  const Answer second = lora.gateway.Ask(For("a", 2));
  EXPECT_EQ(second.status, 200) << second.body;
  // What it said just before it had loaded may arrive after.
  const std::string replica = second.header("x-tidegate-replica");
  EXPECT_TRUE(has_loaded(replica)) << lora.At(replica);
}

TEST(LoraAdapters, WhereTheyWentIsExplainedAndReckonedAgain) {
  const std::vector<std::string> flags = Serving("a-lora,b-lora", 1);
  const EngineProcess engines[2] = {EngineProcess(flags), EngineProcess(flags)};
  const Lora lora({.replicas = {engines[0].port(), engines[1].port()},
                   .models = Adapters("ab"),
                   .sections = "routing_log: {sample: 1}\n"});
  for (const char* endpoint : {"r0", "r1"}) ASSERT_TRUE(lora.Knows(endpoint, 1));
  std::vector<std::string> requests;
  for (int i = 0; i < 6; ++i)
    requests.push_back(lora.gateway.Ask(For(i % 2 == 0 ? "a" : "b", i)).header("x-request-id"));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] {
    return lora.gateway.Metric("tidegate_routing_log_records_total").value_or(0) >= 6;
  }));
  for (const std::string& request : requests) {
    const TempDir folder;
    ChildProcess command(
        {TIDEGATE_BINARY, "route", "explain", "-c", lora.gateway.config_path(), request, "--json"},
        folder / "out");
    EXPECT_EQ(command.Wait(RawClient::kPatience), 0);
    const Json pick = Json::parse(command.Output())["picks"][0];
    EXPECT_EQ(pick["adapter"]["base"], "chat-small");
    EXPECT_EQ(pick["replay"]["agrees"], true) << pick;
    bool home = false;
    for (const Json& candidate : pick["candidates"]) {
      const bool loaded = candidate["adapter"]["standing"] == "loaded";
      EXPECT_EQ(candidate["terms"]["adapter"] == 0.0, loaded) << candidate;
      home = home || loaded;
    }
    EXPECT_EQ(home, request != requests[0] && request != requests[1]) << pick;
  }
}

}  // namespace
}  // namespace tests
