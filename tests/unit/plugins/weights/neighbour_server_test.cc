#include "plugins/weights/neighbour_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "gateway/net/clock.h"
#include "gateway/net/fd.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"
#include "tests/support/temp_dir.h"

namespace plugins::weights {
namespace {

namespace fs = std::filesystem;

constexpr char kToken[] = "0123456789abcdef";
constexpr int kPatienceMs = 20'000;

// Sends exactly what a test says.
class PlainClient {
 public:
  explicit PlainClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  // False: the server has closed.
  bool Send(std::string_view text) const {
    return send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Up to that many bytes; fewer where the server closes.
  std::string Read(size_t most) const {
    std::string text(most, '\0');
    size_t got = 0;
    while (got < most) {
      pollfd ready{.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, kPatienceMs) <= 0) {
        ADD_FAILURE() << "the server says nothing";
        break;
      }
      const ssize_t some = recv(fd_.get(), text.data() + got, most - got, 0);
      if (some <= 0) break;
      got += static_cast<size_t>(some);
    }
    text.resize(got);
    return text;
  }

 private:
  const gateway::net::Fd fd_;
};

struct PlainAnswer {
  int status = 0;
  std::string head{};
  std::string body{};
};

class NeighbourServerTest : public ::testing::Test {
 protected:
  // Weights of one file below a folder.
  std::string Put(const std::string& content, const std::string& path = "sub/w") const {
    const std::string listing = WriteListing({{path, Sha256Hex(content)}});
    const std::string hex = Sha256Hex(listing);
    const std::string id = "sha256-" + hex;
    EXPECT_TRUE(store_.MakeRoom(id, {.bytes = content.size(), .now = gateway::net::Now()}).ok());
    const std::string folder = store_.PartsOf(id) + "/files";
    fs::create_directories(fs::path(folder + "/" + path).parent_path());
    std::ofstream(folder + "/" + path, std::ios::binary) << content;
    EXPECT_TRUE(store_.Publish(id, folder, {.bytes = content.size(), .files = 1}, listing).ok());
    return hex;
  }

  void Serve(NeighbourServer::Options options = {}) {
    options.address = "127.0.0.1:0";
    options.token = kToken;
    options.threads = 2;
    auto server = NeighbourServer::Start(store_, std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  static std::string RequestOf(const std::string& target, const std::string& fields = {},
                               const std::string& method = "GET") {
    return fmt::format("{} {} HTTP/1.1\r\nhost: n\r\nauthorization: Bearer {}\r\n{}connection: close\r\n\r\n",
                       method, target, kToken, fields);
  }
  PlainAnswer AskRaw(const std::string& request) const {
    const PlainClient client(server_->port());
    client.Send(request);
    const std::string all = client.Read(64U << 20);
    PlainAnswer answer;
    const size_t end = all.find("\r\n\r\n");
    if (end == std::string::npos) return answer;
    answer.status = std::stoi(all.substr(9, 3));
    answer.head = all.substr(0, end + 2);
    answer.body = all.substr(end + 4);
    return answer;
  }
  PlainAnswer Ask(const std::string& target, const std::string& fields = {},
                  const std::string& method = "GET") const {
    return AskRaw(RequestOf(target, fields, method));
  }

  tests::TempDir folder_;
  const Store store_ = *Store::Open(folder_ / "store");
  std::unique_ptr<NeighbourServer> server_;
};

TEST_F(NeighbourServerTest, ServesAFileInParts) {
  std::string content(3 * NeighbourServer::kBlock + 7, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 + i / 255);
  const std::string hex = Put(content);
  const std::string sha256 = Sha256Hex(content);
  const std::string target = fmt::format("/v1/weights/{}/{}", hex, sha256);
  Serve();
  const PlainAnswer whole = Ask(target);
  EXPECT_EQ(whole.status, 200);
  EXPECT_TRUE(whole.body == content);
  EXPECT_NE(whole.head.find(fmt::format("etag: \"{}\"\r\n", sha256)), std::string::npos) << whole.head;
  const PlainAnswer rest = Ask(target, "range: bytes=1000000-\r\n");
  EXPECT_EQ(rest.status, 206);
  EXPECT_TRUE(rest.body == content.substr(1'000'000));
  EXPECT_NE(rest.head.find(
                fmt::format("content-range: bytes 1000000-{}/{}\r\n", content.size() - 1, content.size())),
            std::string::npos)
      << rest.head;
  EXPECT_EQ(Ask(target, fmt::format("if-range: \"{}\"\r\nrange: bytes=5-6\r\n", sha256)).body,
            content.substr(5, 2));
  EXPECT_TRUE(Ask(target, "if-range: \"other\"\r\nrange: bytes=5-6\r\n").body == content);
  const PlainAnswer beyond = Ask(target, fmt::format("range: bytes={}-\r\n", content.size()));
  EXPECT_EQ(beyond.status, 416);
  EXPECT_NE(beyond.head.find(fmt::format("content-range: bytes */{}\r\n", content.size())), std::string::npos)
      << beyond.head;
  const PlainAnswer head = Ask(target, {}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.body.empty());
  EXPECT_NE(head.head.find(fmt::format("content-length: {}\r\n", content.size())), std::string::npos);
  EXPECT_EQ(Ask(target, "content-length: 0\r\n", "PUT").status, 405);
}

TEST_F(NeighbourServerTest, TheDocumentHasTheListingAndTheSizes) {
  const std::string hex = Put("weights");
  Serve();
  const PlainAnswer answer = Ask("/v1/weights/" + hex);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const nlohmann::json document = nlohmann::json::parse(answer.body);
  EXPECT_EQ(document["listing"], Sha256Hex("weights") + "  sub/w\n");
  EXPECT_EQ(document["bytes"][Sha256Hex("weights")], 7);
}

TEST_F(NeighbourServerTest, WithoutTheTokenOnlyItsHealthIsTold) {
  const std::string hex = Put("weights");
  Serve();
  const std::string path = "/v1/weights/" + hex;
  for (const char* const field :
       {"", "authorization: Bearer wrong\r\n", "authorization: Basic 0123456789abcdef\r\n",
        "authorization: Bearer 0123456789abcdef0\r\n", "authorization: Bearer\r\n"}) {
    const PlainAnswer answer =
        AskRaw(fmt::format("GET {} HTTP/1.1\r\nhost: n\r\n{}connection: close\r\n\r\n", path, field));
    EXPECT_EQ(answer.status, 401) << field;
    EXPECT_NE(answer.head.find("www-authenticate: Bearer\r\n"), std::string::npos);
    EXPECT_EQ(answer.body.find(hex), std::string::npos);
  }
  // Whether weights are there is not told either.
  EXPECT_EQ(AskRaw(fmt::format("GET /v1/weights/{} HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n",
                               std::string(64, '0')))
                .status,
            401);
  const PlainAnswer health = AskRaw("GET /healthz HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.body, "ok\n");
}

TEST_F(NeighbourServerTest, WhatIsNotThereLeavesNoTrace) {
  const std::string hex = Put("weights");
  Serve();
  const std::string unknown(64, 'e');
  EXPECT_EQ(Ask("/v1/weights/" + unknown).status, 404);
  EXPECT_EQ(Ask("/v1/weights/" + unknown + "/" + Sha256Hex("weights")).status, 404);
  EXPECT_EQ(Ask("/v1/weights/" + hex + "/" + unknown).status, 404);
  EXPECT_FALSE(fs::exists(folder_ / "store/.tidegate/sha256-" + unknown + ".lease"));
}

TEST_F(NeighbourServerTest, NoNameOfARequestReachesTheDisk) {
  const std::string hex = Put("weights");
  const std::string cache = folder_ / "store/cache-k";
  fs::create_directories(cache);
  std::ofstream(cache + "/secret") << "secret";
  Serve();
  for (const std::string& target :
       {std::string("/"), std::string("/v1/weights/"), std::string("/v1/weights/cache-k"),
        std::string("/v1/weights/.tidegate"), std::string("/v1/weights/../store/cache-k/secret"),
        "/v1/weights/" + hex + "/sub/w", "/v1/weights/" + hex + "/../cache-k/secret",
        "/v1/weights/" + hex + "/%2e%2e/cache-k/secret", "/v1/weights/" + hex + "/",
        "/v1/weights/sha256-" + hex, "/v1/weights/" + hex + "%00", "/v1/weights//" + hex,
        "/v1/weights/" + hex + "/" + Sha256Hex("weights") + "/x"}) {
    const PlainAnswer answer = Ask(target);
    EXPECT_EQ(answer.status, 404) << target;
    EXPECT_EQ(answer.body.find("secret"), std::string::npos) << target;
  }
}

TEST_F(NeighbourServerTest, LinksAreNotFollowed) {
  const std::string secret = "what stands elsewhere";
  std::ofstream(folder_ / "secret") << secret;
  fs::create_directories(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere/w") << secret;
  const std::string as_file = Put("one", "w");
  fs::remove(store_.FolderOf("sha256-" + as_file) + "/w");
  fs::create_symlink(folder_ / "secret", store_.FolderOf("sha256-" + as_file) + "/w");
  const std::string as_folder = Put("two");
  fs::remove_all(store_.FolderOf("sha256-" + as_folder) + "/sub");
  fs::create_directory_symlink(folder_ / "elsewhere", store_.FolderOf("sha256-" + as_folder) + "/sub");
  Serve();
  for (const auto& [hex, content] : {std::pair(as_file, "one"), std::pair(as_folder, "two")}) {
    const PlainAnswer file = Ask(fmt::format("/v1/weights/{}/{}", hex, Sha256Hex(content)));
    EXPECT_EQ(file.status, 500) << content;
    EXPECT_EQ(file.body.find(secret), std::string::npos);
    EXPECT_EQ(Ask("/v1/weights/" + hex).status, 500) << content;
  }
}

// As of an OCI artifact that was fetched before stores kept manifests.
TEST_F(NeighbourServerTest, WhatNobodyCouldVerifyIsNotServed) {
  const std::string id = "sha256-" + std::string(64, 'c');
  ASSERT_TRUE(store_.MakeRoom(id, {.bytes = 3, .now = gateway::net::Now()}).ok());
  fs::create_directories(store_.PartsOf(id) + "/files");
  std::ofstream(store_.PartsOf(id) + "/files/w") << "abc";
  const std::string listing = WriteListing({{"w", Sha256Hex("abc")}});
  ASSERT_TRUE(store_.Publish(id, store_.PartsOf(id) + "/files", {.bytes = 3, .files = 1}, listing).ok());
  Serve();
  const PlainAnswer answer = Ask("/v1/weights/" + std::string(64, 'c'));
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.body.find("does not hold the manifest"), std::string::npos) << answer.body;
}

TEST_F(NeighbourServerTest, WeightsOnTheirWayAreNotServed) {
  const std::string id = "sha256-" + std::string(64, 'd');
  ASSERT_TRUE(store_.MakeRoom(id, {.bytes = 3, .now = gateway::net::Now()}).ok());
  fs::create_directories(store_.PartsOf(id) + "/files");
  std::ofstream(store_.PartsOf(id) + "/files/w") << "abc";
  Serve();
  EXPECT_EQ(Ask("/v1/weights/" + std::string(64, 'd')).status, 404);
  EXPECT_EQ(Ask(fmt::format("/v1/weights/{}/{}", std::string(64, 'd'), Sha256Hex("abc"))).status, 404);
}

TEST_F(NeighbourServerTest, WhatIsBeingSentStaysInTheStoreAndASlowClientIsCutOff) {
  const std::string content(64U << 20, 'w');
  const std::string hex = Put(content);
  std::promise<NeighbourServer::Sent> ended;
  NeighbourServer::Options options;
  options.block_time = std::chrono::seconds(1);
  options.on_sent = [&](const NeighbourServer::Sent& sent) { ended.set_value(sent); };
  Serve(std::move(options));
  const PlainClient slow(server_->port());
  slow.Send(RequestOf(fmt::format("/v1/weights/{}/{}", hex, Sha256Hex(content))));
  EXPECT_EQ(slow.Read(15), "HTTP/1.1 200 OK");
  EXPECT_TRUE(absl::IsFailedPrecondition(store_.Remove("sha256-" + hex)));
  auto sent = ended.get_future();
  ASSERT_EQ(sent.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const NeighbourServer::Sent how = sent.get();
  EXPECT_LT(how.bytes, how.of);
  EXPECT_EQ(how.of, content.size());
  EXPECT_EQ(how.path, "sub/w");
  // Its lease ends with its exchange.
  absl::Status removed = absl::UnknownError("not tried");
  for (int tries = 0; tries < 1000 && !removed.ok(); ++tries) {
    removed = store_.Remove("sha256-" + hex);
    if (!removed.ok()) poll(nullptr, 0, 10);
  }
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_EQ(Ask("/v1/weights/" + hex).status, 404);
}

TEST_F(NeighbourServerTest, ConnectionsBeyondTheBoundAreClosedAtOnce) {
  Put("weights");
  NeighbourServer::Options options;
  options.connections = 2;
  Serve(std::move(options));
  const std::string health = "GET /healthz HTTP/1.1\r\nhost: n\r\n\r\n";
  {
    const PlainClient first(server_->port());
    const PlainClient second(server_->port());
    first.Send(health);
    second.Send(health);
    EXPECT_EQ(first.Read(15), "HTTP/1.1 200 OK");
    EXPECT_EQ(second.Read(15), "HTTP/1.1 200 OK");
    const PlainClient third(server_->port());
    EXPECT_EQ(third.Read(1), "");
  }
  int status = 0;
  for (int tries = 0; tries < 1000 && status != 200; ++tries) {
    const PlainClient later(server_->port());
    (void)poll(nullptr, 0, 10);
    if (later.Send(health)) status = later.Read(12) == "HTTP/1.1 200" ? 200 : 0;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(NeighbourServerTest, AClientThatSaysNothingIsClosed) {
  NeighbourServer::Options options;
  options.limits.idle = std::chrono::milliseconds(200);
  options.limits.head_time = std::chrono::milliseconds(200);
  Serve(std::move(options));
  const PlainClient silent(server_->port());
  EXPECT_EQ(silent.Read(1), "");
  const PlainClient half(server_->port());
  half.Send("GET /healthz HTTP/1.1\r\nho");
  const std::string answer = half.Read(1000);
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 408")) << answer;
}

TEST_F(NeighbourServerTest, AnAddressInUseIsToldAndATokenIsRequired) {
  Serve();
  NeighbourServer::Options options;
  options.address = fmt::format("127.0.0.1:{}", server_->port());
  options.token = kToken;
  EXPECT_TRUE(absl::IsUnavailable(NeighbourServer::Start(store_, options).status()));
  options.token.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(NeighbourServer::Start(store_, options).status()));
}

}  // namespace
}  // namespace plugins::weights
