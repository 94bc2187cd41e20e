// Endpoints that a running gateway discovers: by a file and by DNS, through changes, faults and reloads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "tests/support/dns_server.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

constexpr std::string_view kDiscoveryAdminKey = "a-bootstrap-key-of-enough-characters";

struct Discovered : testing::Test {
  Discovered() {
    std::ofstream(folder / "key") << kDiscoveryAdminKey;
    chmod((folder / "key").c_str(), 0600);
  }

  // The model `found`, whose only endpoint has this source.
  GatewayConfig With(const std::string& source) const {
    return {.replicas = {first.port()},
            .models = fmt::format("  - {{name: found, endpoints: [{{{}, engine: vllm, model: chat-small}}], "
                                  "queue: {{max_wait: 20s}}, price: {{input: 1, output: 2}}}}\n",
                                  source),
            .sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder / "key")};
  }
  std::string FileSource() const { return fmt::format("file: \"{}\"", list()); }
  std::string list() const { return folder / "replicas.yaml"; }
  // As a whole, so that no half of it is read.
  void Write(const std::string& text) const {
    std::ofstream(folder / "next.yaml") << text;
    std::filesystem::rename(folder / "next.yaml", list());
  }
  static std::string At(const EngineProcess& engine) {
    return fmt::format("- 127.0.0.1:{}\n", engine.port());
  }

  static Json Endpoints(const GatewayProcess& gateway) {
    return gateway
        .AskAdmin(Get("/admin/v1/endpoints?model=found",
                      fmt::format("Authorization: Bearer {}\r\n", kDiscoveryAdminKey)))
        .json()["data"];
  }
  static bool Becomes(const GatewayProcess& gateway, size_t count) {
    return Within(RawClient::kPatience, [&] { return Endpoints(gateway).size() == count; });
  }
  static std::string Readiness(const GatewayProcess& gateway) {
    return gateway.AskAdmin(Get("/readyz")).body;
  }
  static bool Says(const GatewayProcess& gateway, const std::string& text) {
    return Within(RawClient::kPatience, [&] { return Readiness(gateway).find(text) != std::string::npos; });
  }
  static Answer Call(const GatewayProcess& gateway) { return gateway.Ask(Chat({{"model", "found"}})); }

  TempDir folder;
  EngineProcess first;
  EngineProcess second;
};

TEST_F(Discovered, AFileIsFollowedAndAWrongOneKeepsTheLastList) {
  Write(At(first));
  const GatewayProcess gateway(With(FileSource()));
  ASSERT_TRUE(Becomes(gateway, 1));
  EXPECT_EQ(Call(gateway).status, 200);
  const Json row = Endpoints(gateway)[0];
  EXPECT_EQ(row["source"], "file:" + list());
  EXPECT_EQ(row["name"], fmt::format("replicas/127.0.0.1:{}", first.port()));

  Write(At(first) + At(second));
  ASSERT_TRUE(Becomes(gateway, 2));
  Write("- 127.0.0.1\n");
  EXPECT_TRUE(Says(gateway, "discovery:file:"));
  EXPECT_EQ(Endpoints(gateway).size(), 2U);
  EXPECT_EQ(Call(gateway).status, 200);

  Write(At(second));
  ASSERT_TRUE(Becomes(gateway, 1));
  EXPECT_TRUE(Within(RawClient::kPatience,
                     [&] { return Readiness(gateway).find("discovery:") == std::string::npos; }));
  EXPECT_EQ(Call(gateway).status, 200);
}

TEST_F(Discovered, ARequestWaitsForTheFirstEndpoint) {
  Write("[]\n");
  const GatewayProcess gateway(With(FileSource()));
  EXPECT_TRUE(Says(gateway, "no endpoint of it is found yet"));
  const std::string waiting = R"(tidegate_queue_requests{model="found",band="normal"})";
  std::thread later([&] {
    EXPECT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Metric(waiting) == 1; }));
    Write(At(first));
  });
  EXPECT_EQ(Call(gateway).status, 200);
  later.join();
}

TEST_F(Discovered, ANameInDnsIsFollowedAndAnOutageKeepsItsAddresses) {
  DnsServer dns;
  dns.Set("vllm.test", {"127.0.0.1"});
  const GatewayProcess gateway(With(fmt::format("dns: vllm.test, port: {}, interval: 100ms, resolver: \"{}\"",
                                                first.port(), dns.address())));
  ASSERT_TRUE(Becomes(gateway, 1));
  EXPECT_EQ(Call(gateway).status, 200);
  dns.Fail(true);
  EXPECT_TRUE(Says(gateway, "discovery:dns:vllm.test"));
  EXPECT_EQ(Call(gateway).status, 200);
  dns.Fail(false);
  dns.Set("vllm.test", {"127.0.0.1", "127.0.0.2"});
  EXPECT_TRUE(Becomes(gateway, 2));
  dns.Set("vllm.test", {});
  EXPECT_TRUE(Becomes(gateway, 0));
}

TEST_F(Discovered, AReloadKeepsWhatWasFoundWhileTheSourceFails) {
  DnsServer dns;
  dns.Set("vllm.test", {"127.0.0.1"});
  const std::string source =
      fmt::format("dns: vllm.test, port: {}, interval: 100ms, resolver: \"{}\"", first.port(), dns.address());
  GatewayProcess gateway(With(source));
  ASSERT_TRUE(Becomes(gateway, 1));
  dns.Fail(true);
  gateway.WriteConfig(With(source + ", weight: 7"));
  gateway.Reload();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] {
    const Json rows = Endpoints(gateway);
    return rows.size() == 1 && rows[0]["weight"] == 7;
  }));
  EXPECT_EQ(Call(gateway).status, 200);
}

}  // namespace
}  // namespace tests
