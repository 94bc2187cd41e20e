// LoRA adapters that operators load at run time, over real engines: loaded everywhere, on demand, again after
// restarts; refused where they must be.
#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/fault/gateway/queued.h"
#include "tests/fault/gateway/scaling.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr std::string_view kAdapters = "/admin/v1/models/chat-small/adapters";

std::vector<std::string> LoadsLoras() {
  return {"--preset", "instant", "--enable-lora", "--lora-load", "5ms"};
}

// Folders of adapters, as engines expect them.
class AdapterFolders {
 public:
  explicit AdapterFolders(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      mkdir(From(name).c_str(), 0755);
      std::ofstream(From(name) + "/adapter_config.json") << "{}";
    }
  }
  std::string From(const std::string& name) const { return folder_ / name; }
  std::string Section(std::string_view more = {}) const {
    return fmt::format("adapters: {{sources: [{}]{}}}", folder_.path(), more);
  }

 private:
  TempDir folder_;
};

std::string Naming(std::string_view model, std::string_view headers = {}) {
  return Chat({{"model", model}, {"max_tokens", 2}}, headers);
}

std::vector<std::string> ListedBy(const EngineProcess& engine) {
  std::vector<std::string> names;
  RawClient client(engine.port());
  client.Send(Get("/v1/models"));
  const Json models = client.Read().json()["data"];
  for (const Json& model : models) {
    if (!model["parent"].is_null()) names.push_back(model["id"]);
  }
  return names;
}

class Loading {
 public:
  Loading(std::vector<uint16_t> replicas, const std::vector<std::string>& names, std::string_view more = {})
      : folders(names),
        queued({.replicas = std::move(replicas), .model = folders.Section(more)}),
        gateway(queued.gateway) {}

  Answer Load(const std::string& name) { return LoadFrom(name, folders.From(name)); }
  Answer LoadFrom(const std::string& name, const std::string& source) {
    return gateway.AskAdmin(
        Post(kAdapters, Json{{"name", name}, {"source", source}}.dump(), Queued::Credentials()));
  }
  Answer Unload(const std::string& name) {
    return gateway.AskAdmin(fmt::format("DELETE {}/{} HTTP/1.1\r\nHost: x\r\n{}Connection: close\r\n\r\n",
                                        kAdapters, name, Queued::Credentials()));
  }
  Json All() {
    const Answer answer = gateway.AskAdmin(Get(kAdapters, Queued::Credentials()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["data"];
  }
  // "r0 loaded, r1 absent".
  std::string Where(const std::string& name) {
    std::string where;
    const Json all = All();
    for (const Json& adapter : all) {
      if (adapter["name"] != name) continue;
      for (const Json& at : adapter["replicas"]) {
        where += (where.empty() ? "" : ", ") + at["replica"].get<std::string>() + " " +
                 at["state"].get<std::string>();
      }
    }
    return where;
  }
  bool Becomes(const std::string& name, const std::string& where) {
    return Within(std::chrono::seconds(20), [&] {
      Pause(milliseconds(20));
      return Where(name) == where;
    });
  }
  std::vector<std::string> Recorded() const {
    std::vector<std::string> actions;
    for (const Record& record : gateway.Records()) {
      if (record.kind == Kind::kAction && record.action.starts_with("adapter."))
        actions.push_back(record.action + " " + record.subject);
    }
    return actions;
  }

  AdapterFolders folders;
  Queued queued;
  GatewayProcess& gateway;
};

TEST(Adapters, AnAdapterIsLoadedEverywhereServedAsAModelAndUnloaded) {
  const EngineProcess r0(LoadsLoras());
  const EngineProcess r1(LoadsLoras());
  Loading loading({r0.port(), r1.port()}, {"sql"});
  EXPECT_EQ(loading.gateway.Ask(Naming("sql")).status, 404);
  const Answer loaded = loading.Load("sql");
  ASSERT_EQ(loaded.status, 201) << loaded.body;
  EXPECT_EQ(loaded.json()["state"], "loaded");
  EXPECT_EQ(loaded.json()["model"], "sql");
  EXPECT_TRUE(loading.Becomes("sql", "r0 loaded, r1 loaded")) << loading.All();
  EXPECT_THAT(ListedBy(r0), ElementsAre("sql"));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(loading.gateway.Ask(Naming("sql")).status, 200);
  EXPECT_THAT(loading.gateway.Ask(Get("/v1/models")).body, HasSubstr("\"sql\""));
  EXPECT_EQ(loading.Load("sql").status, 409);

  const Answer unloaded = loading.Unload("sql");
  ASSERT_EQ(unloaded.status, 200) << unloaded.body;
  EXPECT_EQ(loading.gateway.Ask(Naming("sql")).status, 404);
  EXPECT_TRUE(Within(std::chrono::seconds(20), [&] { return loading.All().empty(); })) << loading.All();
  EXPECT_TRUE(ListedBy(r0).empty());
  EXPECT_TRUE(ListedBy(r1).empty());
  EXPECT_EQ(loading.Unload("sql").status, 404);
  EXPECT_THAT(loading.Recorded(), ElementsAre("adapter.load sql", "adapter.unload sql", "adapter.gone sql"));
}

TEST(Adapters, WhatIsNotAllowedOrNotThereIsRefusedAndLeavesNothing) {
  const EngineProcess r0(LoadsLoras());
  Loading loading({r0.port()}, {"sql"});
  const Answer elsewhere = loading.LoadFrom("sql", "/etc/adapters");
  EXPECT_EQ(elsewhere.status, 400);
  EXPECT_EQ(elsewhere.code(), "invalid_value") << elsewhere.body;
  EXPECT_THAT(elsewhere.body, HasSubstr("is in none of the model's adapters.sources; give a path in "));
  const Answer missing = loading.Load("missing");
  EXPECT_EQ(missing.status, 502);
  EXPECT_EQ(missing.code(), "adapter_refused") << missing.body;
  EXPECT_THAT(missing.body, HasSubstr("No adapter found for"));
  EXPECT_TRUE(loading.All().empty());
  EXPECT_EQ(loading.gateway.Ask(Naming("missing")).status, 404);
  EXPECT_THAT(loading.Recorded(), ElementsAre("adapter.load missing", "adapter.refused missing"));
}

TEST(Adapters, TheOneUsedTheLongestAgoLeavesForOneThatIsAskedFor) {
  std::vector<std::string> flags = LoadsLoras();
  flags.insert(flags.end(), {"--max-loaded-loras", "2"});
  const EngineProcess r0(flags);
  Loading loading({r0.port()}, {"a", "b", "c"}, ", slots: 2");
  for (const char* const name : {"a", "b"}) ASSERT_EQ(loading.Load(name).status, 201) << name;
  ASSERT_EQ(loading.gateway.Ask(Naming("b")).status, 200);
  ASSERT_EQ(loading.gateway.Ask(Naming("a")).status, 200);
  const Answer third = loading.Load("c");
  ASSERT_EQ(third.status, 201) << third.body;
  EXPECT_EQ(third.json()["state"], "loaded");
  EXPECT_THAT(ListedBy(r0), UnorderedElementsAre("a", "c"));
  // One that left comes back when it is asked for; the caller waits for it.
  EXPECT_EQ(loading.gateway.Ask(Naming("b")).status, 200);
  EXPECT_THAT(ListedBy(r0), UnorderedElementsAre("b", "c"));
  for (int i = 0; i < 6; ++i) {
    const std::string name(1, static_cast<char>('a' + i % 3));
    const Answer answer = loading.gateway.Ask(Naming(name));
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  EXPECT_GE(std::ranges::count(loading.Recorded(), std::string("adapter.displace b")), 1);
}

TEST(Adapters, ARequestWhoseAdapterNoEngineLoadsIsToldSo) {
  std::vector<std::string> flags = LoadsLoras();
  flags.insert(flags.end(), {"--max-loaded-loras", "1"});
  const EngineProcess r0(flags);
  Loading loading({r0.port()}, {"a", "b"});  // the gateway knows of no bound
  ASSERT_EQ(loading.Load("a").status, 201);
  const Answer refused = loading.Load("b");
  EXPECT_EQ(refused.code(), "adapter_refused") << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("--max-loaded-loras"));
}

TEST(Adapters, AreThereAgainAfterTheGatewayAndAfterAnEngineWasRestarted) {
  EngineProcess r0(LoadsLoras());
  Loading loading({r0.port()}, {"sql"});
  ASSERT_EQ(loading.Load("sql").status, 201);
  loading.gateway.Restart();  // kill -9
  EXPECT_TRUE(loading.Becomes("sql", "r0 loaded")) << loading.All();
  EXPECT_EQ(loading.gateway.Ask(Naming("sql")).status, 200);

  r0.Kill();
  r0.Start();
  EXPECT_TRUE(Within(std::chrono::seconds(20), [&] { return !ListedBy(r0).empty(); }));
  EXPECT_TRUE(
      Within(std::chrono::seconds(20), [&] { return loading.gateway.Ask(Naming("sql")).status == 200; }));
  EXPECT_THAT(loading.Recorded(), ElementsAre("adapter.load sql"));
}

TEST(Adapters, CallersReachNeitherTheEnginesPathsNorAnotherAdapter) {
  const EngineProcess r0(LoadsLoras());
  Loading loading({r0.port()}, {"sql"});
  for (const char* const path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/load_lora_adapter",
                                 "/unload_lora_adapter", "/v1/models/../load_lora_adapter"}) {
    const int status =
        loading.gateway.Ask(Post(path, Json{{"lora_name", "x"}, {"lora_path", "acme/x"}}.dump())).status;
    EXPECT_GE(status, 400) << path;
    EXPECT_LT(status, 500) << path;
  }
  EXPECT_TRUE(ListedBy(r0).empty());
  const Answer beside = loading.gateway.Ask(Chat({{"lora_path", "sql"}, {"max_tokens", 1}}));
  EXPECT_EQ(beside.status, 400);
  EXPECT_THAT(beside.body, AllOf(HasSubstr("unsupported_parameter"), HasSubstr("lora_path")));
}

TEST(Adapters, ANewReplicaHasThemBeforeTheirRequests) {
  const AdapterFolders folders({"sql"});
  const Scaled scaled({.flags = LoadsLoras()}, {}, {.replicas = {}, .model = folders.Section()});
  const Answer waiting = scaled.gateway.AskAdmin(
      Post(kAdapters, Json{{"name", "sql"}, {"source", folders.From("sql")}}.dump(), Scaled::Credentials()));
  ASSERT_EQ(waiting.status, 201) << waiting.body;
  EXPECT_EQ(waiting.json()["state"], "waiting") << "no replica runs yet";
  for (int start = 0; start < 2; ++start) {
    const Answer answer = scaled.gateway.Ask(Naming("sql"));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(Within(std::chrono::seconds(30), [&] { return scaled.Replicas().empty(); }));
  }
  EXPECT_EQ(scaled.Names("replica.launch"), 2);
}

}  // namespace
}  // namespace tests
