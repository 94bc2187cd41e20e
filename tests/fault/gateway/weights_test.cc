// Weights through the real gateway: from a server into the store of this machine, and from there into an engine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "plugins/weights/digest.h"
#include "plugins/weights/neighbour_document.h"
#include "plugins/weights/order.h"
#include "tests/fault/gateway/scaling.h"
#include "tests/support/child_process.h"
#include "tests/support/file_server.h"

namespace tests {
namespace {

using testing::HasSubstr;

std::string WeightsContent(size_t size) {
  std::string out(size, '\0');
  uint32_t seed = 7;
  for (char& c : out) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return out;
}

// An engine that starts with weights alone.
std::string EngineThatNeeds(const std::string& file) {
  return fmt::format(
      "[/bin/sh, -c, \"test -s {{weights}}/{} && test -z \\\"$TIDEGATE_WEIGHTS\\\" && exec {} --port "
      "{{port}} "
      "--model chat-small --preset instant\"]",
      file, TIDEGATE_ENGINE_BINARY);
}

class Weights : public ::testing::Test {
 protected:
  std::string Scaling(const std::string& cluster = "[{kind: gpu, count: 2}]") const {
    return fmt::format("cluster: {}, weights: {{store: {}}}", cluster, folder_ / "store");
  }
  // With another store, which asks a server of weights before the source.
  std::string ScalingBeside(uint16_t port) const {
    return fmt::format(
        "cluster: [{{kind: gpu, count: 2}}], weights: {{store: {}, neighbours: {{url: "
        "\"http://127.0.0.1:{}\", "
        "token: \"file:{}\"}}}}",
        folder_ / "beside", port, TokenFile());
  }
  std::string TokenFile() const {
    const std::string path = folder_ / "token";
    std::ofstream(path) << "a-token-of-enough-characters\n";
    chmod(path.c_str(), 0600);
    return path;
  }
  // The store of this test, served as an operator does it on each node.
  std::unique_ptr<ChildProcess> Serve() const {
    return std::make_unique<ChildProcess>(
        std::vector<std::string>{TIDEGATE_BINARY, "weights", "serve", "--store", folder_ / "store",
                                 "--listen", "127.0.0.1:0", "--token", "file:" + TokenFile()},
        folder_ / "serve.log");
  }
  static uint16_t PortOf(ChildProcess& server) {
    const std::string line = server.WaitForLine("on port ", std::chrono::seconds(20));
    return line.empty() ? uint16_t{0} : static_cast<uint16_t>(std::stoi(line.substr(line.rfind(' ') + 1)));
  }
  ScaledModel Model(const std::string& url, const std::string& digest, const std::string& replicas,
                    const std::string& more = {}) const {
    return {.replicas = replicas,
            .more = fmt::format("placement: {{devices: [{{kind: gpu}}]}}\n"
                                "weights: {{http: {{url: \"{}\"}}, digest: \"sha256:{}\"{}}}\n",
                                url, digest, more),
            .command = EngineThatNeeds("m.gguf"),
            .replica = "ready: {path: /health, timeout: 30s, token: true}"};
  }
  // The metric of bytes by where they came from.
  static bool Shows(const Scaled& scaled, const std::string& from, uint64_t bytes) {
    return Within(std::chrono::seconds(20), [&] {
      Pause(milliseconds(20));
      return scaled.gateway.Metric(fmt::format("tidegate_weights_transferred_bytes_total{{from=\"{}\"}}",
                                               from)) == static_cast<double>(bytes);
    });
  }
  bool Stored(const std::string& hex) const {
    return std::filesystem::exists(folder_ / ("store/sha256-" + hex + "/m.gguf"));
  }

  TempDir folder_;
};

TEST_F(Weights, AreFetchedOnceForAllReplicasOfANodeWhateverTheNetworkDoes) {
  const std::string content = WeightsContent(8 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  FileServer server([&](const FileServer::Request& request) {
    FileServer::Reply reply = FileServer::Ranged(request, content);
    reply.cut_after = 3 << 20;
    return reply;
  });
  const Scaled scaled(Model(server.url("/m.gguf"), hex, "{min: 2, max: 2}"), Scaling());
  ASSERT_TRUE(scaled.Becomes(2, "ready")) << scaled.Replicas();
  EXPECT_EQ(server.sent(), content.size());
  EXPECT_TRUE(Stored(hex));
  uint64_t fetched = 0;
  for (const Json& replica : scaled.Replicas()) {
    ASSERT_TRUE(replica["start"].is_object()) << replica;
    fetched += replica["start"]["weights_bytes"].get<uint64_t>();
    EXPECT_GT(replica["start"]["fetched_ms"].get<int64_t>(), 0) << replica;
    EXPECT_TRUE(replica["weights"].is_null());
  }
  EXPECT_EQ(fetched, content.size());
  bool recorded = false;
  for (const auto& action : scaled.Actions()) {
    recorded |= action.action == "replica.ready" && action.detail.find("\"fetched_ms\"") != std::string::npos;
  }
  EXPECT_TRUE(recorded);
  EXPECT_EQ(scaled.Scaling()["start_phases"].size(), 6U) << scaled.Scaling();
}

TEST_F(Weights, OfAnotherDigestStartNothingAndTheReasonIsTold) {
  const std::string content = WeightsContent(1 << 20);
  const std::string wrong(64, 'a');
  FileServer server([&](const FileServer::Request& request) { return FileServer::Ranged(request, content); });
  const Scaled scaled(Model(server.url("/m.gguf"), wrong, "{min: 1, max: 1}"), Scaling());
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] { return scaled.Scaling()["trouble"].is_string(); }));
  EXPECT_THAT(scaled.Scaling()["trouble"].get<std::string>(), HasSubstr("its SHA-256 is"));
  EXPECT_FALSE(Stored(wrong));
}

TEST_F(Weights, OnTheirWayAreShownAndMayTakeLongerThanReadiness) {
  const std::string content = WeightsContent(4 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  std::atomic<bool> slow = true;
  FileServer server([&](const FileServer::Request& request) {
    FileServer::Reply reply = FileServer::Ranged(request, content);
    if (slow) {
      reply.cut_after = 64 << 10;
      std::this_thread::sleep_for(milliseconds(200));
    }
    return reply;
  });
  ScaledModel model = Model(server.url("/m.gguf"), hex, "{min: 1, max: 1}");
  model.replica = "ready: {path: /health, timeout: 6s}";
  const Scaled scaled(model, Scaling());
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] {
    const Json replicas = scaled.Replicas();
    return !replicas.empty() && replicas[0]["weights"].is_object() &&
           replicas[0]["weights"]["total_bytes"] == content.size();
  })) << scaled.Replicas();
  EXPECT_THAT(scaled.Replicas()[0]["reason"].get<std::string>(), HasSubstr("its weights are being fetched"));
  Pause(std::chrono::seconds(7));
  slow = false;
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
}

TEST_F(Weights, AreContinuedAfterTheReplicaWasKilled) {
  const std::string content = WeightsContent(8 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  std::atomic<int> calls = 0;
  FileServer server([&](const FileServer::Request& request) {
    FileServer::Reply reply = FileServer::Ranged(request, content);
    if (++calls == 1) {
      reply.cut_after = 4 << 20;
    } else if (calls < 4) {
      reply = {.status = 503};
    }
    return reply;
  });
  const Scaled scaled(Model(server.url("/m.gguf"), hex, "{min: 1, max: 1}"), Scaling());
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] { return calls >= 2; }));
  const std::string run = scaled.Replicas()[0]["id"];
  kill(PidOf(run), SIGKILL);
  ASSERT_TRUE(scaled.Becomes(1, "ready", std::chrono::seconds(40))) << scaled.Replicas();
  EXPECT_EQ(server.sent(), content.size());
}

TEST_F(Weights, ArePrefetchedWhileAReplicaWaitsForDevices) {
  const std::string content = WeightsContent(1 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  FileServer server([&](const FileServer::Request& request) { return FileServer::Ranged(request, content); });
  ScaledModel model = Model(server.url("/m.gguf"), hex, "{min: 1, max: 1}", ", prefetch: {on_demand: true}");
  // More devices than there are.
  const size_t kind = model.more.find("{kind: gpu}");
  model.more.replace(kind, 11, "{kind: gpu, count: 3}");
  const Scaled scaled(model, Scaling());
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] { return Stored(hex); })) << scaled.Scaling();
  EXPECT_EQ(scaled.Names("weights.prefetch"), 1);
  ASSERT_TRUE(Within(std::chrono::seconds(20), [&] { return scaled.Scaling()["prefetches"].empty(); }));
}

TEST_F(Weights, ComeFromTheStoreOfAnotherNodeAndTheSourceIsNotAsked) {
  const std::string content = WeightsContent(8 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  FileServer server([&](const FileServer::Request& request) { return FileServer::Ranged(request, content); });
  const ScaledModel model = Model(server.url("/m.gguf"), hex, "{min: 1, max: 1}");
  {
    const Scaled first(model, Scaling());
    ASSERT_TRUE(first.Becomes(1, "ready")) << first.Replicas();
  }
  const size_t asked = server.seen().size();
  const auto neighbour = Serve();
  const uint16_t port = PortOf(*neighbour);
  ASSERT_NE(port, 0) << neighbour->Output();
  Scaled second(model, ScalingBeside(port));
  ASSERT_TRUE(second.Becomes(1, "ready")) << second.Replicas();
  EXPECT_EQ(server.seen().size(), asked);
  EXPECT_TRUE(ReadFile(folder_ / ("beside/sha256-" + hex + "/m.gguf")) == content);
  const Json replicas = second.Replicas();
  EXPECT_EQ(replicas[0]["start"]["weights_bytes"], content.size());
  EXPECT_EQ(replicas[0]["start"]["weights_bytes_of_neighbours"], content.size());
  EXPECT_TRUE(Shows(second, "neighbour", content.size()));
  EXPECT_TRUE(Shows(second, "source", 0));
  EXPECT_THAT(neighbour->Output(), HasSubstr("sent m.gguf of sha256-" + hex.substr(0, 12)));
  // The token is in no log.
  EXPECT_THAT(neighbour->Output(), testing::Not(HasSubstr("a-token-of-enough")));
  EXPECT_THAT(second.gateway.process().Output(), testing::Not(HasSubstr("a-token-of-enough")));
  neighbour->Signal(SIGTERM);
  EXPECT_EQ(neighbour->Wait(std::chrono::seconds(20)), 0);
}

TEST_F(Weights, ThatAnotherNodeHoldsDamagedComeFromTheSourceAndItIsTold) {
  const std::string content = WeightsContent(2 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  FileServer server([&](const FileServer::Request& request) { return FileServer::Ranged(request, content); });
  const ScaledModel model = Model(server.url("/m.gguf"), hex, "{min: 1, max: 1}");
  {
    const Scaled first(model, Scaling());
    ASSERT_TRUE(first.Becomes(1, "ready")) << first.Replicas();
  }
  const std::string stored = folder_ / ("store/sha256-" + hex + "/m.gguf");
  std::fstream(stored, std::ios::in | std::ios::out | std::ios::binary).seekp(1 << 20).put('!');
  const size_t asked = server.seen().size();
  const auto neighbour = Serve();
  const uint16_t port = PortOf(*neighbour);
  ASSERT_NE(port, 0) << neighbour->Output();
  Scaled second(model, ScalingBeside(port));
  ASSERT_TRUE(second.Becomes(1, "ready")) << second.Replicas();
  EXPECT_EQ(server.seen().size(), asked + 1);
  EXPECT_TRUE(ReadFile(folder_ / ("beside/sha256-" + hex + "/m.gguf")) == content);
  EXPECT_TRUE(Shows(second, "source", content.size()));
  EXPECT_THAT(second.gateway.process().Output(), HasSubstr("weights came from elsewhere"));
  EXPECT_THAT(second.gateway.process().Output(), HasSubstr("its SHA-256 is"));
}

// Two nodes, whose processes are all of this machine, and so share its store.
TEST_F(Weights, OfAnotherNodeAreAskedForByItsName) {
  std::ofstream(folder_ / "cluster.yaml")
      << "devices: [{name: gpu, memory: 80GiB}]\n"
         "types: [{name: box, cpu: 64, memory: 512GiB, device: gpu, count: 1}]\n"
         "nodes: [{name: \"n{1..2}\", type: box}]\n";
  const std::string content = WeightsContent(1 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  FileServer server([&](const FileServer::Request& request) { return FileServer::Ranged(request, content); });
  FileServer neighbours([&](const FileServer::Request& request) -> FileServer::Reply {
    if (request.Field("authorization") != "Bearer a-token-of-enough-characters") return {.status = 401};
    if (request.target.ends_with(hex + "/" + hex)) return FileServer::Ranged(request, content);
    return {.body = plugins::weights::WriteDocument(
                {.listing = hex + "  w\n", .manifest = {}, .bytes = {{hex, content.size()}}})};
  });
  ScaledModel model = Model(server.url("/m.gguf"), hex, "{min: 1, max: 2}");
  Scaled scaled(model,
                fmt::format("cluster: {}, weights: {{store: {}, neighbours: {{url: \"{}/{{node}}\", token: "
                            "\"file:{}\"}}}}",
                            folder_ / "cluster.yaml", folder_ / "store", neighbours.url(), TokenFile()));
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  EXPECT_TRUE(neighbours.seen().empty());  // nobody had them
  const std::string first = scaled.Replicas()[0]["node"];
  std::filesystem::remove_all(folder_ / ("store/sha256-" + hex));
  model.replicas = "{min: 2, max: 2}";
  scaled.WritePolicy(model);
  scaled.gateway.Reload();
  ASSERT_TRUE(scaled.Becomes(2, "ready")) << scaled.Replicas();
  ASSERT_EQ(neighbours.seen().size(), 2U);
  EXPECT_EQ(neighbours.seen()[0].target, fmt::format("/{}/v1/weights/{}", first, hex));
  EXPECT_EQ(neighbours.seen()[1].target, fmt::format("/{}/v1/weights/{}/{}", first, hex, hex));
  EXPECT_EQ(server.sent(), content.size());
}

TEST_F(Weights, ComeFromTheSourceIfTheOtherNodeIsDown) {
  const std::string content = WeightsContent(1 << 20);
  const std::string hex = plugins::weights::Sha256Hex(content);
  FileServer server([&](const FileServer::Request& request) { return FileServer::Ranged(request, content); });
  const auto neighbour = Serve();
  const uint16_t port = PortOf(*neighbour);
  ASSERT_NE(port, 0) << neighbour->Output();
  neighbour->Signal(SIGKILL);
  neighbour->Wait(std::chrono::seconds(20));
  const Scaled scaled(Model(server.url("/m.gguf"), hex, "{min: 1, max: 1}"), ScalingBeside(port));
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  EXPECT_EQ(server.sent(), content.size());
}

}  // namespace
}  // namespace tests
