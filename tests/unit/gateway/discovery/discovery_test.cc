#include "gateway/discovery/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config/load.h"
#include "gateway/discovery/open_source.h"
#include "tests/support/dns_server.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace gateway::discovery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Config Configured(const std::string& endpoints, const std::string& more = {}) {
  LoadResult loaded = ParseConfig(
      "models:\n  - name: m\n    endpoints: [" + endpoints + "]\n" + more +
          "tenants: [{name: t, models: [\"*\"]}]\nserver: {listen: 127.0.0.1:0, state_dir: /tmp/s}\n",
      "tidegate.yaml", conf::Sources());
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
  return loaded.config.value_or(Config());
}

std::vector<std::string> NamesIn(const Launched& all, const std::string& model = "m") {
  std::vector<std::string> out;
  const auto found = all.find(model);
  if (found == all.end()) return out;
  for (const auto& endpoint : found->second) out.push_back(endpoint->name);
  return out;
}

config::Target At(const std::string& host, uint16_t port = 8000) {
  return {.url = {"http", host, port, ""}};
}

// A source that says what a test wants.
struct Told final : Source {
  explicit Told(Listener to) : listener(std::move(to)) {}
  void Start() override { started = true; }
  void Stop() override { stopped = true; }

  Listener listener;
  bool started = false;
  bool stopped = false;
};

struct Fixture {
  explicit Fixture(net::Loop& loop)
      : discovery(
            loop,
            [this](const config::Discovery& of, Source::Listener listener) {
              auto made = std::make_shared<Told>(std::move(listener));
              sources[config::SourceOf(of)] = made;
              return made;
            },
            [this] { ++batches; }) {}

  std::map<std::string, std::shared_ptr<Told>> sources;
  int batches = 0;
  Discovery discovery;
};

TEST(Discovery, EachAddressIsAnEndpointWithTheFieldsOfItsSource) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Fixture f(loop);
    const Config config =
        Configured("{name: pool, dns: vllm.test, port: 8000, engine: vllm, model: x, weight: 3}");
    f.discovery.Configure(config);
    f.sources.at("dns:vllm.test:8000")->listener.found({At("10.0.0.1"), At("10.0.0.2")});
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return f.batches == 1; }));
    const Launched all = f.discovery.Endpoints(config);
    EXPECT_THAT(NamesIn(all), ElementsAre("pool/10.0.0.1:8000", "pool/10.0.0.2:8000"));
    const config::Endpoint& first = *all.at("m").front();
    EXPECT_EQ(first.weight, 3U);
    EXPECT_EQ(first.model, "x");
    EXPECT_EQ(first.source, "dns:vllm.test:8000");
    EXPECT_FALSE(first.discovery.has_value());
    f.discovery.Stop();
    EXPECT_TRUE(f.sources.begin()->second->stopped);
  });
}

TEST(Discovery, AnAddressThatStaysKeepsItsEndpoint) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Fixture f(loop);
    const Config config = Configured("{dns: vllm.test, port: 8000, engine: vllm}");
    f.discovery.Configure(config);
    Told& source = *f.sources.begin()->second;
    source.listener.found({At("10.0.0.1"), At("10.0.0.2")});
    const auto before = f.discovery.Endpoints(config).at("m");
    source.listener.found({At("10.0.0.2"), At("10.0.0.3")});
    const auto after = f.discovery.Endpoints(config).at("m");
    EXPECT_EQ(before[1], after[0]);
    EXPECT_EQ(after[1]->name, "vllm.test/10.0.0.3:8000");
    f.discovery.Stop();
    co_return;
  });
}

TEST(Discovery, ASurgeIsToldInOneBatch) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Fixture f(loop);
    const Config config = Configured("{dns: vllm.test, port: 8000, engine: vllm}");
    f.discovery.Configure(config);
    Told& source = *f.sources.begin()->second;
    source.listener.found({At("10.0.0.1")});
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return f.batches == 1; }));
    Targets many;
    for (int i = 0; i < 1000; ++i) {
      many.push_back(At("10.1.0.1", static_cast<uint16_t>(1000 + i)));
      source.listener.found(many);
    }
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return f.batches == 2; }));
    EXPECT_EQ(NamesIn(f.discovery.Endpoints(config)).size(), 1000U);
    EXPECT_EQ(f.batches, 2);
    f.discovery.Stop();
  });
}

TEST(Discovery, AReloadKeepsWhatWasFoundAndUsesTheNewFields) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Fixture f(loop);
    const Config before =
        Configured("{dns: vllm.test, port: 8000, engine: vllm}, {dns: other.test, port: 1, engine: vllm}");
    f.discovery.Configure(before);
    f.sources.at("dns:vllm.test:8000")->listener.found({At("10.0.0.1")});
    const Config after = Configured("{name: new, dns: vllm.test, port: 8000, engine: sglang}");
    EXPECT_THAT(NamesIn(f.discovery.Endpoints(after)), ElementsAre("new/10.0.0.1:8000"));
    f.discovery.Configure(after);
    EXPECT_THAT(NamesIn(f.discovery.Endpoints(after)), ElementsAre("new/10.0.0.1:8000"));
    EXPECT_FALSE(f.sources.at("dns:vllm.test:8000")->stopped);
    EXPECT_TRUE(f.sources.at("dns:other.test:1")->stopped);
    f.discovery.Stop();
    co_return;
  });
}

TEST(Discovery, AnEngineThatIsFoundTwiceIsOneReplica) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    Fixture f(loop);
    const Config config = Configured(
        "{url: \"http://10.0.0.1:8000\", engine: vllm}, {dns: a.test, port: 8000, engine: vllm}, "
        "{dns: b.test, port: 8000, engine: vllm}");
    f.discovery.Configure(config);
    f.sources.at("dns:a.test:8000")->listener.found({At("10.0.0.1"), At("10.0.0.2")});
    f.sources.at("dns:b.test:8000")->listener.found({At("10.0.0.2"), At("10.0.0.3")});
    EXPECT_THAT(NamesIn(f.discovery.Endpoints(config)),
                ElementsAre("a.test/10.0.0.2:8000", "b.test/10.0.0.3:8000"));
    f.discovery.Stop();
    co_return;
  });
}

TEST(Discovery, ANameIsFollowedThroughChangesAndOutages) {
  tests::DnsServer server;
  server.Set("vllm.test", {"10.0.0.1"});
  tests::RunOnLoop([&](tests::TestLoop& loop) -> net::Task<void> {
    Discovery discovery(
        loop,
        [&loop](const config::Discovery& of, Source::Listener listener) {
          return OpenSource(loop, of, {}, std::move(listener));
        },
        [] {});
    const Config config =
        Configured("{dns: vllm.test, port: 8000, engine: vllm, interval: 100ms, resolver: \"" +
                   server.address() + "\"}");
    discovery.Configure(config);
    const auto there = [&](size_t count) { return NamesIn(discovery.Endpoints(config)).size() == count; };
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return there(1); }));
    EXPECT_EQ(discovery.Endpoints(config).at("m").front()->authority, "vllm.test:8000");
    server.Set("vllm.test", {"10.0.0.1", "10.0.0.2"});
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return there(2); }));
    server.Fail(true);
    EXPECT_TRUE(
        co_await tests::Eventually(loop, [&] { return !discovery.status().front().trouble.empty(); }));
    EXPECT_TRUE(there(2));
    server.Fail(false);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return discovery.status().front().trouble.empty(); }));
    server.Set("vllm.test", {});
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return there(0); }));
    EXPECT_THAT(discovery.status().front().trouble, HasSubstr("vllm.test"));
    discovery.Stop();
  });
}

TEST(Discovery, ServiceRecordsAreFollowedWithTheirPorts) {
  tests::DnsServer server;
  server.Set("a.test", {"10.0.0.1"});
  server.Set("b.test", {"10.0.0.2"});
  server.SetServices("_http._tcp.vllm.test", {{"a.test", 8000, 1}, {"b.test", 8001, 1}});
  tests::RunOnLoop([&](tests::TestLoop& loop) -> net::Task<void> {
    Discovery discovery(
        loop,
        [&loop](const config::Discovery& of, Source::Listener listener) {
          return OpenSource(loop, of, {}, std::move(listener));
        },
        [] {});
    const Config config =
        Configured("{name: p, dns: _http._tcp.vllm.test, engine: vllm, interval: 100ms, resolver: \"" +
                   server.address() + "\"}");
    discovery.Configure(config);
    EXPECT_TRUE(
        co_await tests::Eventually(loop, [&] { return NamesIn(discovery.Endpoints(config)).size() == 2; }));
    EXPECT_THAT(NamesIn(discovery.Endpoints(config)), ElementsAre("p/10.0.0.1:8000", "p/10.0.0.2:8001"));
    discovery.Stop();
  });
}

TEST(Discovery, AFileIsFollowedAndAWrongOneKeepsTheLastList) {
  const tests::TempDir folder;
  const std::string path = folder / "replicas.yaml";
  tests::RunOnLoop([&](tests::TestLoop& loop) -> net::Task<void> {
    Discovery discovery(
        loop,
        [&loop](const config::Discovery& of, Source::Listener listener) {
          return OpenSource(loop, of, {}, std::move(listener));
        },
        [] {});
    const Config config = Configured("{file: \"" + path + "\", engine: vllm}");
    discovery.Configure(config);
    const auto there = [&](size_t count) { return NamesIn(discovery.Endpoints(config)).size() == count; };
    EXPECT_TRUE(
        co_await tests::Eventually(loop, [&] { return !discovery.status().front().trouble.empty(); }));
    EXPECT_FALSE(discovery.status().front().found);
    std::ofstream(path) << "- 10.0.0.1:8000\n- 10.0.0.2:8000\n";
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return there(2); }));
    EXPECT_TRUE(discovery.status().front().trouble.empty());
    std::ofstream(path) << "- nonsense without a port\n";
    EXPECT_TRUE(
        co_await tests::Eventually(loop, [&] { return !discovery.status().front().trouble.empty(); }));
    EXPECT_TRUE(there(2));
    EXPECT_THAT(discovery.status().front().trouble, HasSubstr("replicas.yaml"));
    std::ofstream(path) << "[]\n";
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return there(0); }));
    discovery.Stop();
  });
}

TEST(DiscoveryConfig, AnEndpointHasOneSource) {
  const auto problems = [](const std::string& endpoint) {
    std::string all;
    for (const conf::Problem& problem : ParseConfig("models: [{name: m, endpoints: [" + endpoint +
                                                        "]}]\ntenants: [{name: t, models: [\"*\"]}]\nserver: "
                                                        "{listen: 127.0.0.1:0, state_dir: /tmp/s}\n",
                                                    "f", conf::Sources())
                                            .problems)
      all += ToString(problem) + "\n";
    return all;
  };
  EXPECT_THAT(problems("{engine: vllm}"), HasSubstr("url"));
  EXPECT_THAT(problems("{engine: vllm, url: \"http://a:1\", dns: a.test, port: 1}"),
              HasSubstr("give one of"));
  EXPECT_THAT(problems("{engine: vllm, dns: a.test}"), HasSubstr("port"));
  EXPECT_THAT(problems("{engine: vllm, dns: 10.0.0.1, port: 80}"), HasSubstr("is an address"));
  EXPECT_THAT(problems("{engine: vllm, dns: _http._tcp.a.test, port: 80}"), HasSubstr("their own ports"));
  EXPECT_THAT(problems("{engine: vllm, file: /etc/x, resolver: 10.0.0.1}"), HasSubstr("without dns"));
  EXPECT_THAT(problems("{engine: vllm, dns: a.test, port: 80, resolver: nonsense}"),
              HasSubstr("name server"));
  EXPECT_THAT(problems("{engine: vllm, dns: a.test, port: 80, kv_events: {url: \"tcp://10.0.0.1:5557\"}}"),
              HasSubstr("{host}"));
  EXPECT_THAT(problems("{engine: vllm, dns: a.test, port: 80, kv_events: {url: \"tcp://{host}:5557\"}}"), "");
  EXPECT_THAT(problems("{engine: vllm, kubernetes: {service: vllm, port: http}}"), "");
}

TEST(DiscoveryConfig, WhatIsWrittenReadsBackTheSame) {
  const Config config = Configured(
      "{dns: vllm.test, port: 8000, engine: vllm, interval: 5s, resolver: 10.0.0.10}, "
      "{file: /etc/replicas.yaml, engine: vllm, scheme: https, path: /llm}, "
      "{kubernetes: {service: vllm, port: http, namespace: models}, engine: vllm}");
  const LoadResult again = ParseConfig(ToJson(config).dump(), "f", conf::Sources());
  for (const conf::Problem& problem : again.problems) ADD_FAILURE() << ToString(problem);
  ASSERT_TRUE(again.config);
  ASSERT_EQ(again.config->models.front().endpoints.size(), 3U);
  for (size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(again.config->models.front().endpoints[e].discovery,
              config.models.front().endpoints[e].discovery);
    EXPECT_EQ(again.config->models.front().endpoints[e].name, config.models.front().endpoints[e].name);
  }
}

}  // namespace
}  // namespace gateway::discovery
