// Fetches that ask other nodes' stores before the source.
#include "plugins/weights/neighbours.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>

#include "conf/text.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/fetch.h"
#include "plugins/weights/listing.h"
#include "plugins/weights/neighbour_document.h"
#include "plugins/weights/neighbour_server.h"
#include "tests/support/file_server.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tls_files.h"

namespace plugins::weights {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Answer = tests::FileServer::Reply;
using Call = tests::FileServer::Request;

constexpr char kNeighbourToken[] = "0123456789abcdef";

std::string Bytes(size_t size, uint32_t seed) {
  std::string out(size, '\0');
  for (char& c : out) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return out;
}

// Weights of several files, and a source that has them.
struct Weights {
  std::map<std::string, std::string> files = {
      {"a.safetensors", Bytes(3 << 20, 1)}, {"b/config.json", "{}"}, {"c.safetensors", Bytes(1 << 20, 2)}};

  std::string Listing() const {
    std::vector<ListedFile> listed;
    for (const auto& [path, content] : files) listed.push_back({path, Sha256Hex(content)});
    return WriteListing(listed);
  }
  std::string hex() const { return Sha256Hex(Listing()); }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [path, content] : files) sum += content.size();
    return sum;
  }
  // By its path below the source, or by its hash below a neighbour.
  const std::string* Find(const std::string& name) const {
    for (const auto& [path, content] : files) {
      if (path == name || Sha256Hex(content) == name) return &content;
    }
    return nullptr;
  }
  Answer AsSource(const Call& call) const {
    if (call.target == "/m/SHA256SUMS") return {.body = Listing()};
    const std::string* const content = Find(call.target.substr(3));
    return content == nullptr ? Answer{.status = 404}
                              : tests::FileServer::Ranged(call, *content, "\"source\"");
  }
  // As tidegate weights serve, until a test changes the answer.
  Answer AsNeighbour(const Call& call) const {
    if (call.Field("authorization") != fmt::format("Bearer {}", kNeighbourToken)) return {.status = 401};
    if (call.target == NeighbourPath(hex()))
      return {.body = WriteDocument({.listing = Listing(), .bytes = Sizes()})};
    const std::string root = NeighbourPath(hex()) + "/";
    const std::string* const content =
        call.target.starts_with(root) ? Find(call.target.substr(root.size())) : nullptr;
    return content == nullptr ? Answer{.status = 404}
                              : tests::FileServer::Ranged(call, *content, "\"neighbour\"");
  }
  std::map<std::string, uint64_t> Sizes() const {
    std::map<std::string, uint64_t> sizes;
    for (const auto& [path, content] : files) sizes[Sha256Hex(content)] = content.size();
    return sizes;
  }
};

class NeighboursTest : public ::testing::Test {
 protected:
  WeightsOrder OrderFor(std::vector<std::string> neighbours) const {
    WeightsOrder order;
    order.store = folder_ / "store";
    order.digest = "sha256:" + weights_.hex();
    order.model = "chat-small";
    order.connections = 1;
    order.source = HttpSource{.url = source_.url("/m"), .listing = "SHA256SUMS"};
    order.neighbours = std::move(neighbours);
    order.access.token = kNeighbourToken;
    return order;
  }
  absl::StatusOr<FetchedWeights> Fetch(const WeightsOrder& order) {
    FetchOptions options;
    options.say = [this](std::string_view text) { said_.emplace_back(text); };
    options.web.least_pause = std::chrono::milliseconds(1);
    options.web.most_pause = std::chrono::milliseconds(5);
    return FetchWeights(order, std::move(options));
  }
  void ExpectWhole(const FetchedWeights& fetched) const {
    for (const auto& [path, content] : weights_.files)
      EXPECT_TRUE(tests::ReadFile(fetched.weights.folder + "/" + path) == content) << path;
    EXPECT_TRUE(fs::is_empty(folder_ / "store/.tidegate/parts"));
    EXPECT_EQ(fetched.bytes, weights_.bytes());
  }
  static size_t CountFiles(const tests::FileServer& server) {
    size_t count = 0;
    for (const Call& call : server.seen())
      count += call.target.find("safetensors") != std::string::npos ? 1 : 0;
    return count;
  }

  Weights weights_;
  tests::TempDir folder_;
  tests::FileServer source_{[this](const Call& call) { return weights_.AsSource(call); }};
  std::vector<std::string> said_;
};

// The store of another node, served as an operator does.
class OtherNode {
 public:
  explicit OtherNode(const WeightsOrder* fetched, NeighbourServer::Options options = {}) {
    if (fetched != nullptr) {
      WeightsOrder order = *fetched;
      order.store = folder_ / "store";
      order.neighbours.clear();
      const auto done = FetchWeights(order, {});
      EXPECT_TRUE(done.ok()) << done.status();
    }
    options.address = "127.0.0.1:0";
    options.token = kNeighbourToken;
    const bool tls = options.tls != nullptr;
    auto server = NeighbourServer::Start(*Store::Open(folder_ / "store"), std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    url_ = fmt::format("{}://127.0.0.1:{}", tls ? "https" : "http", server_->port());
  }
  const std::string& url() const { return url_; }
  std::string FolderOf(const std::string& hex) const { return folder_ / ("store/sha256-" + hex); }

 private:
  tests::TempDir folder_;
  std::unique_ptr<NeighbourServer> server_;
  std::string url_;
};

TEST_F(NeighboursTest, TheSourceIsNotAskedWhereANeighbourHasTheWeights) {
  const WeightsOrder plain = OrderFor({});
  const OtherNode other(&plain);
  const size_t asked = source_.seen().size();
  WeightsOrder order = OrderFor({other.url() + "/"});
  order.connections = 4;
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(source_.seen().size(), asked);
  EXPECT_EQ(fetched->transferred, weights_.bytes());
  EXPECT_EQ(fetched->neighbours, weights_.bytes());
  EXPECT_THAT(fetched->notes, IsEmpty());
  // The node can serve them in its turn, and its listing tells where they came from.
  const auto entries = Store::Open(order.store)->List();
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ((*entries)[0].record.neighbours, weights_.bytes());
}

TEST_F(NeighboursTest, AreAskedInOrderAndTheSourceAtLast) {
  const OtherNode empty(nullptr);
  tests::FileServer refusing([](const Call&) { return Answer{.status = 503}; });
  const std::string closed = [] {
    tests::FileServer gone([](const Call&) { return Answer{}; });
    return gone.url();
  }();
  const auto fetched = Fetch(OrderFor({closed, empty.url(), refusing.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(fetched->neighbours, 0U);
  EXPECT_EQ(fetched->transferred, weights_.bytes());
  EXPECT_THAT(said_, ElementsAre(HasSubstr(fmt::format("the neighbour {} is not asked again", closed)),
                                 fmt::format("the neighbour {} does not have the weights", empty.url()),
                                 HasSubstr("answers 503")));
  EXPECT_THAT(fetched->notes, ElementsAre(HasSubstr(closed), HasSubstr("answers 503")));
  EXPECT_EQ(refusing.seen().size(), 1U);
}

TEST_F(NeighboursTest, WrongBytesAreFoundOutAndFetchedElsewhere) {
  tests::FileServer wrong([this](const Call& call) {
    Answer answer = weights_.AsNeighbour(call);
    if (call.target != NeighbourPath(weights_.hex()) && !answer.body.empty()) answer.body.back() ^= 1;
    return answer;
  });
  tests::FileServer right([this](const Call& call) { return weights_.AsNeighbour(call); });
  const auto fetched = Fetch(OrderFor({wrong.url(), right.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(wrong.seen().size(), 2U);  // the document and one file
  EXPECT_EQ(right.seen().size(), 3U);
  EXPECT_TRUE(source_.seen().empty());
  ASSERT_EQ(fetched->notes.size(), 1U);
  EXPECT_THAT(fetched->notes[0], HasSubstr("its SHA-256 is"));
  EXPECT_THAT(fetched->notes[0], HasSubstr(wrong.url()));
  EXPECT_THAT(fetched->notes[0], HasSubstr("a.safetensors"));
}

TEST_F(NeighboursTest, WhatAWrongNeighbourIsSendingMeanwhileIsThrownAway) {
  // The large file comes, endlessly slowly, while the small one shows that the neighbour is wrong.
  weights_.files = {{"a", Bytes(8 << 20, 3)}, {"b", "small"}};
  std::atomic<bool> begun = false;
  tests::FileServer wrong([this, &begun](const Call& call) {
    Answer answer = weights_.AsNeighbour(call);
    if (call.target == NeighbourPath(weights_.hex())) return answer;
    if (answer.body.size() > 100) {
      begun = true;
      answer.body[0] ^= 1;
      answer.cut_after = 4 << 20;
      return answer;
    }
    while (!begun) std::this_thread::yield();
    answer.body = "SMALL";
    return answer;
  });
  WeightsOrder order = OrderFor({wrong.url()});
  order.connections = 2;
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
}

TEST_F(NeighboursTest, ANeighbourThatDiesInTheMiddleIsContinuedByTheNext) {
  std::atomic<int> files = 0;
  tests::FileServer dying([&](const Call& call) {
    Answer answer = weights_.AsNeighbour(call);
    if (call.target == NeighbourPath(weights_.hex())) return answer;
    if (++files > 1) return Answer{.status = 0};
    answer.cut_after = 2 << 20;
    return answer;
  });
  const WeightsOrder plain = OrderFor({});
  const OtherNode other(&plain);
  const size_t asked = source_.seen().size();
  const auto fetched = Fetch(OrderFor({dying.url(), other.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(fetched->transferred, weights_.bytes());  // no byte twice
  EXPECT_EQ(fetched->neighbours, weights_.bytes());
  EXPECT_EQ(source_.seen().size(), asked);
}

TEST_F(NeighboursTest, TheSourceContinuesWhatANeighbourBegan) {
  std::atomic<int> files = 0;
  tests::FileServer dying([&](const Call& call) {
    Answer answer = weights_.AsNeighbour(call);
    if (call.target == NeighbourPath(weights_.hex())) return answer;
    if (++files > 1) return Answer{.status = 0};
    answer.cut_after = 2 << 20;
    return answer;
  });
  const auto fetched = Fetch(OrderFor({dying.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(fetched->transferred, weights_.bytes());
  EXPECT_EQ(fetched->neighbours, 2U << 20);
  bool continued = false;
  for (const Call& call : source_.seen())
    continued |= call.method == "GET" && call.Field("range") == fmt::format("bytes={}-", 2 << 20);
  EXPECT_TRUE(continued);
}

TEST_F(NeighboursTest, PartsOfAWrongOneThatDiesAreNotKept) {
  std::atomic<int> files = 0;
  tests::FileServer dying([&](const Call& call) {
    Answer answer = weights_.AsNeighbour(call);
    if (call.target == NeighbourPath(weights_.hex())) return answer;
    if (++files > 1) return Answer{.status = 0};
    answer.body[0] ^= 1;
    answer.cut_after = 2 << 20;
    return answer;
  });
  tests::FileServer right([this](const Call& call) { return weights_.AsNeighbour(call); });
  const auto fetched = Fetch(OrderFor({dying.url(), right.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_TRUE(source_.seen().empty());
  // The second one is not blamed for what the first one sent.
  EXPECT_THAT(fetched->notes, ElementsAre(HasSubstr(dying.url())));
}

TEST_F(NeighboursTest, ANeighbourThatLiesAndBreaksOffEachTimeIsLeft) {
  tests::FileServer wrong([&](const Call& call) {
    Call whole = call;
    Answer answer = weights_.AsNeighbour(whole);
    if (call.target == NeighbourPath(weights_.hex()) || answer.body.empty()) return answer;
    answer.body[0] ^= 1;
    if (call.Field("range").empty()) answer.cut_after = answer.body.size() / 2;
    return answer;
  });
  const auto fetched = Fetch(OrderFor({wrong.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_THAT(fetched->notes, ElementsAre(HasSubstr("its SHA-256 is")));
}

TEST_F(NeighboursTest, WithAListingOfOtherFilesANeighbourIsNotBelieved) {
  Weights other;
  other.files["evil"] = "x";
  tests::FileServer wrong([&](const Call&) {
    return Answer{.body = WriteDocument({.listing = other.Listing(), .bytes = other.Sizes()})};
  });
  const auto fetched = Fetch(OrderFor({wrong.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_FALSE(fs::exists(fetched->weights.folder + "/evil"));
  EXPECT_THAT(fetched->notes, ElementsAre(HasSubstr("lists files whose digest is")));
}

TEST_F(NeighboursTest, WrongSizesChangeNothing) {
  tests::FileServer wrong([&](const Call& call) {
    if (call.target != NeighbourPath(weights_.hex())) return weights_.AsNeighbour(call);
    std::map<std::string, uint64_t> sizes = weights_.Sizes();
    for (auto& [sha256, bytes] : sizes) bytes = 1;
    return Answer{.body = WriteDocument({.listing = weights_.Listing(), .bytes = std::move(sizes)})};
  });
  const auto fetched = Fetch(OrderFor({wrong.url()}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_THAT(fetched->notes, IsEmpty());
  EXPECT_EQ(fetched->bytes, weights_.bytes());
}

TEST_F(NeighboursTest, AWholePartOfAnEarlierFetchIsNotFetchedAgain) {
  tests::FileServer right([this](const Call& call) { return weights_.AsNeighbour(call); });
  const WeightsOrder order = OrderFor({right.url()});
  const std::string part =
      fmt::format("{}/.tidegate/parts/sha256-{}/files/a.safetensors", order.store, weights_.hex());
  fs::create_directories(fs::path(part).parent_path());
  std::ofstream(part, std::ios::binary) << weights_.files["a.safetensors"];
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(fetched->transferred, weights_.bytes() - weights_.files["a.safetensors"].size());
}

TEST_F(NeighboursTest, AreNotFollowedElsewhereAndDoNotGetTheTokenOfTheSource) {
  tests::FileServer elsewhere([](const Call&) { return Answer{.body = "x"}; });
  tests::FileServer redirecting(
      [&](const Call&) { return Answer{.status = 302, .fields = {{"location", elsewhere.url("/x")}}}; });
  WeightsOrder order = OrderFor({redirecting.url()});
  std::get<HttpSource>(order.source).token = "of-the-source";
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_TRUE(elsewhere.seen().empty());
  EXPECT_EQ(redirecting.seen()[0].Field("authorization"), fmt::format("Bearer {}", kNeighbourToken));
  EXPECT_EQ(source_.seen()[0].Field("authorization"), "Bearer of-the-source");
  EXPECT_THAT(fetched->notes, ElementsAre(HasSubstr("it redirects, which is not followed")));
}

TEST_F(NeighboursTest, ATokenThatIsRefusedIsTold) {
  const WeightsOrder plain = OrderFor({});
  const OtherNode other(&plain);
  WeightsOrder order = OrderFor({other.url()});
  order.access.token = "another-token-than-this";
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->neighbours, 0U);
  EXPECT_THAT(fetched->notes, ElementsAre(HasSubstr("answers 401")));
  EXPECT_THAT(fetched->notes[0], testing::Not(HasSubstr("another-token")));
}

TEST_F(NeighboursTest, ASingleFileKeepsTheNameOfItsOwnSource) {
  weights_.files = {{"m.gguf", Bytes(1 << 20, 9)}};
  const std::string hex = Sha256Hex(weights_.files["m.gguf"]);
  tests::FileServer one(
      [&](const Call& call) { return tests::FileServer::Ranged(call, weights_.files["m.gguf"]); });
  WeightsOrder order = OrderFor({});
  order.digest = "sha256:" + hex;
  order.source = HttpSource{.url = one.url("/other-name.gguf")};
  const OtherNode other(&order);
  const size_t asked = one.seen().size();
  order.neighbours = {other.url()};
  order.source = HttpSource{.url = one.url("/m.gguf")};
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(one.seen().size(), asked);
}

TEST_F(NeighboursTest, AnOciArtifactComesWithItsManifest) {
  std::string layers;
  for (const auto& [path, content] : weights_.files) {
    layers += fmt::format(
        R"({}{{"mediaType":"application/octet-stream","digest":"sha256:{}","size":{},"annotations":{{"org.opencontainers.image.title":"{}"}}}})",
        layers.empty() ? "" : ",", Sha256Hex(content), content.size(), path);
  }
  const std::string manifest = fmt::format(R"({{"schemaVersion":2,"layers":[{}]}})", layers);
  tests::FileServer registry([&](const Call& call) {
    const size_t colon = call.target.rfind(':');
    const std::string hex = call.target.substr(colon + 1);
    if (hex == Sha256Hex(manifest)) return Answer{.body = manifest};
    const std::string* const content = weights_.Find(hex);
    return content == nullptr ? Answer{.status = 404} : tests::FileServer::Ranged(call, *content);
  });
  WeightsOrder order = OrderFor({});
  order.digest = "sha256:" + Sha256Hex(manifest);
  order.source = OciSource{.registry = registry.url(), .repository = "org/chat"};
  const OtherNode other(&order);
  const size_t asked = registry.seen().size();
  order.neighbours = {other.url()};
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
  EXPECT_EQ(registry.seen().size(), asked);
  // And from there to a third node.
  NeighbourServer::Options options;
  options.address = "127.0.0.1:0";
  options.token = kNeighbourToken;
  const auto second = NeighbourServer::Start(*Store::Open(order.store), std::move(options));
  ASSERT_TRUE(second.ok()) << second.status();
  order.store = folder_ / "third";
  order.neighbours = {fmt::format("http://127.0.0.1:{}", (*second)->port())};
  const auto third = Fetch(order);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(registry.seen().size(), asked);
}

TEST_F(NeighboursTest, AFolderOfThisMachineIsReadOnlyWhereNoNeighbourHasIt) {
  for (const auto& [path, content] : weights_.files) {
    const std::string file = folder_ / ("nfs/" + path);
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }
  std::atomic<int> files = 0;
  tests::FileServer dying([&](const Call& call) {
    Answer answer = weights_.AsNeighbour(call);
    if (call.target == NeighbourPath(weights_.hex())) return answer;
    if (++files > 1) return Answer{.status = 0};
    answer.body[0] ^= 1;  // which the copy's hash shows
    answer.cut_after = 2 << 20;
    return answer;
  });
  WeightsOrder order = OrderFor({dying.url()});
  order.source = PathSource{folder_ / "nfs"};
  const auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ExpectWhole(*fetched);
}

TEST_F(NeighboursTest, OverTlsWithAnAuthorityOfTheirOwn) {
  const tests::TlsFiles files;
  NeighbourServer::Options options;
  auto tls = gateway::net::TlsContext::Server(
      {.certificate = files.certificate(), .key = files.key(), .client_ca = {}});
  ASSERT_TRUE(tls.ok()) << tls.status();
  options.tls = *std::move(tls);
  const WeightsOrder plain = OrderFor({});
  const OtherNode other(&plain, std::move(options));
  const size_t asked = source_.seen().size();
  WeightsOrder order = OrderFor({other.url()});
  order.access.ca = files.certificate();
  auto fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->neighbours, weights_.bytes());
  EXPECT_EQ(source_.seen().size(), asked);
  // Without it, the neighbour is not trusted.
  order.access.ca.clear();
  order.store = folder_ / "another";
  fetched = Fetch(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->neighbours, 0U);
}

TEST_F(NeighboursTest, WithoutANeighbourAndASourceTheReasonIsTheSources) {
  WeightsOrder order = OrderFor({});
  const OtherNode empty(nullptr);
  order.neighbours = {empty.url()};
  order.source = HttpSource{.url = source_.url("/none"), .listing = "SHA256SUMS"};
  const auto fetched = Fetch(order);
  EXPECT_TRUE(absl::IsNotFound(fetched.status()));
  EXPECT_THAT(std::string(conf::Std(fetched.status().message())), HasSubstr("/none/SHA256SUMS answers 404"));
}

TEST(WeightsOrderOfNeighbours, TravelsWithTheOrder) {
  WeightsOrder order;
  order.store = "/store";
  order.digest = "sha256:" + std::string(64, 'a');
  order.source = PathSource{"/m"};
  order.neighbours = {"http://n1:9470", "http://n2:9470"};
  order.access = {"secret", "/ca.pem"};
  order.also.push_back({"sha256:" + std::string(64, 'b'), "corpus", PathSource{"/d"}, {"http://n3:9470"}});
  const auto read = ReadOrder(WriteOrder(order));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->neighbours, order.neighbours);
  EXPECT_EQ(read->access.token, "secret");
  EXPECT_EQ(read->access.ca, "/ca.pem");
  ASSERT_EQ(read->also.size(), 1U);
  EXPECT_EQ(read->also[0].neighbours, order.also[0].neighbours);
}

}  // namespace
}  // namespace plugins::weights
