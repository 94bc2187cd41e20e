#include "plugins/weights/fetch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <thread>

#include "conf/text.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"
#include "tests/support/file_server.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_dir.h"

namespace plugins::weights {
namespace {

namespace fs = std::filesystem;
using Reply = tests::FileServer::Reply;
using Request = tests::FileServer::Request;

// Bytes that differ from place to place.
std::string Content(size_t size, uint32_t seed = 1) {
  std::string out(size, '\0');
  for (char& c : out) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return out;
}

FetchOptions Hasty() {
  FetchOptions options;
  options.report_every = std::chrono::milliseconds(20);
  options.web.least_pause = std::chrono::milliseconds(1);
  options.web.most_pause = std::chrono::milliseconds(5);
  options.web.silence = std::chrono::seconds(5);
  return options;
}

WeightsOrder OrderOf(const std::string& store, Source source, const std::string& hex) {
  return {.store = store, .digest = "sha256:" + hex, .model = "chat-small", .source = std::move(source)};
}

std::string Why(const absl::StatusOr<FetchedWeights>& fetched) {
  return fetched.ok() ? "OK" : std::string(conf::Std(fetched.status().message()));
}

class WeightsFetch : public ::testing::Test {
 protected:
  // As a later process has it: the lease is given back.
  absl::StatusOr<uint64_t> FetchOnce(const WeightsOrder& order) {
    auto fetched = FetchWeights(order, Hasty());
    if (!fetched.ok()) return fetched.status();
    return fetched->transferred;
  }
  bool HasParts() const { return !fs::is_empty(store_ / ".tidegate/parts"); }

  tests::TempDir folder_;
  const std::string store_path_ = folder_ / "store";
  struct Store {
    const std::string& root;
    std::string operator/(const std::string& name) const { return root + "/" + name; }
  } store_{store_path_};
};

TEST_F(WeightsFetch, AFileIsFetchedOnceAndHeld) {
  const std::string content = Content(3 << 20);
  tests::FileServer server(
      [&](const Request& request) { return tests::FileServer::Ranged(request, content); });
  const WeightsOrder order =
      OrderOf(store_path_, HttpSource{.url = server.url("/m/model.gguf?x=1")}, Sha256Hex(content));
  const auto fetched = FetchWeights(order, Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(tests::ReadFile(fetched->weights.folder + "/model.gguf"), content);
  EXPECT_EQ(fetched->weights.folder, WeightsFolder(store_path_, order.digest));
  EXPECT_EQ(fetched->transferred, content.size());
  EXPECT_EQ(fetched->holds, std::vector<std::string>{Sha256Hex(content)});
  const auto again = FetchWeights(order, Hasty());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->transferred, 0U);
  EXPECT_EQ(server.seen().size(), 1U);
  EXPECT_FALSE(HasParts());
}

TEST_F(WeightsFetch, TwoAtOnceFetchOnce) {
  const std::string content = Content(2 << 20);
  // The answer comes once another one waits.
  std::counting_semaphore<> waits(0);
  std::atomic<bool> waited = false;
  tests::FileServer server([&](const Request& request) {
    waited = waits.try_acquire_for(std::chrono::seconds(10));
    return tests::FileServer::Ranged(request, content);
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  std::atomic<uint64_t> transferred = 0;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        FetchOptions options = Hasty();
        options.report = [&](const FetchProgress& progress) {
          if (progress.phase == FetchPhase::kWaiting) waits.release();
        };
        const auto fetched = FetchWeights(order, options);
        if (fetched.ok()) {
          transferred += fetched->transferred;
        } else {
          ++failed;
        }
      });
    }
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(transferred, content.size());
  EXPECT_EQ(server.seen().size(), 1U);
  EXPECT_TRUE(waited);
}

TEST_F(WeightsFetch, CutConnectionsAreResumed) {
  const std::string content = Content(5 << 20);
  tests::FileServer server([&](const Request& request) {
    Reply reply = tests::FileServer::Ranged(request, content);
    reply.cut_after = (1 << 20) + 7;
    return reply;
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  const auto fetched = FetchOnce(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(*fetched, content.size());  // no byte twice
  EXPECT_EQ(server.seen().size(), 5U);
  EXPECT_EQ(server.seen()[1].Field("if-range"), "\"v1\"");
}

TEST_F(WeightsFetch, WithoutRangesAFileIsFetchedAgainFromItsBeginning) {
  const std::string content = Content(2 << 20);
  std::atomic<int> calls = 0;
  tests::FileServer server([&](const Request&) {
    Reply reply{.body = content};
    if (++calls <= 2) reply.cut_after = 1 << 20;
    return reply;
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  const auto fetched = FetchOnce(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(*fetched, content.size() + (2 << 20));
}

TEST_F(WeightsFetch, AFileThatChangesBetweenTwoAttemptsIsFetchedAnew) {
  const std::string before = Content(2 << 20, 1);
  const std::string after = Content(2 << 20, 2);
  std::atomic<int> calls = 0;
  tests::FileServer server([&](const Request& request) {
    if (++calls > 1) return tests::FileServer::Ranged(request, after, "\"v2\"");
    Reply reply = tests::FileServer::Ranged(request, before);
    reply.cut_after = 1 << 20;
    return reply;
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(after));
  const auto fetched = FetchOnce(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
}

TEST_F(WeightsFetch, AServerThatIgnoresIfRangeIsFoundOutByTheDigest) {
  const std::string before = Content(2 << 20, 1);
  const std::string after = Content(2 << 20, 2);
  std::atomic<int> calls = 0;
  tests::FileServer server([&](const Request& request) {
    Request plain = request;
    plain.fields.erase("if-range");
    if (++calls > 1) return tests::FileServer::Ranged(plain, after);
    Reply reply = tests::FileServer::Ranged(plain, before);
    reply.cut_after = 1 << 20;
    return reply;
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(after));
  const auto fetched = FetchOnce(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(calls, 3);
}

TEST_F(WeightsFetch, AWrongDigestLeavesNothing) {
  const std::string content = Content(1 << 20);
  tests::FileServer server(
      [&](const Request& request) { return tests::FileServer::Ranged(request, content); });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, std::string(64, 'a'));
  const auto fetched = FetchWeights(order, Hasty());
  ASSERT_TRUE(absl::IsDataLoss(fetched.status())) << Why(fetched);
  EXPECT_EQ(Why(fetched), fmt::format("{}/m: its SHA-256 is {}, and should be {}", server.url(),
                                      Sha256Hex(content), std::string(64, 'a')));
  EXPECT_FALSE(HasParts());
  EXPECT_FALSE(fs::exists(WeightsFolder(store_path_, order.digest)));
}

TEST_F(WeightsFetch, AKilledFetchIsContinuedByTheNextProcess) {
  const std::string content = Content(6 << 20);
  std::atomic<bool> stall = true;
  tests::FileServer server([&](const Request& request) {
    Reply reply = tests::FileServer::Ranged(request, content);
    if (stall) {
      reply.fields.emplace_back("content-length", std::to_string(reply.body.size()));
      reply.cut_after = 4 << 20;
    }
    return reply;
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FetchOptions options = Hasty();
    options.web.least_pause = options.web.most_pause = std::chrono::seconds(60);
    (void)FetchWeights(order, options);
    _exit(0);
  }
  const std::string part = store_ / fmt::format(".tidegate/parts/sha256-{}/files/m", Sha256Hex(content));
  std::error_code error;
  while (!fs::exists(part, error) || fs::file_size(part, error) < (4U << 20)) {
    ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the fetch has ended without the first four MiB";
    usleep(1000);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  stall = false;
  const auto fetched = FetchOnce(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(*fetched, 2U << 20);
}

TEST_F(WeightsFetch, RedirectsAreFollowedWithoutTheToken) {
  const std::string content = Content(1 << 20);
  tests::FileServer cdn([&](const Request& request) { return tests::FileServer::Ranged(request, content); });
  tests::FileServer hub([&](const Request&) {
    return Reply{.status = 302, .fields = {{"location", cdn.url("/blob?signature=secret")}}};
  });
  const WeightsOrder order =
      OrderOf(store_path_, HttpSource{.url = hub.url("/m"), .token = "hf_abc"}, Sha256Hex(content));
  const auto fetched = FetchOnce(order);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(hub.seen()[0].Field("authorization"), "Bearer hf_abc");
  EXPECT_EQ(cdn.seen()[0].Field("authorization"), "");
}

TEST_F(WeightsFetch, ARefusalIsToldAtOnceAndATroubledServerIsAskedAgain) {
  std::atomic<int> status = 404;
  std::atomic<int> calls = 0;
  const std::string content = Content(1000);
  tests::FileServer server([&](const Request&) {
    if (++calls > 2 && status == 503) return Reply{.body = content};
    return Reply{.status = status};
  });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  EXPECT_EQ(Why(FetchWeights(order, Hasty())), server.url("/m answers 404"));
  EXPECT_EQ(calls, 1);
  status = 401;
  EXPECT_EQ(Why(FetchWeights(order, Hasty())),
            server.url("/m answers 401: it requires credentials, or other ones than the given"));
  calls = 0;
  status = 503;
  EXPECT_TRUE(FetchOnce(order).ok());
  EXPECT_EQ(calls, 3);
}

// All sources have the same three files, and so the same digest.
struct Tree {
  std::vector<std::pair<std::string, std::string>> files = {{"config.json", "{}"},
                                                            {"model-00001.safetensors", Content(1 << 20, 3)},
                                                            {"sub/tokenizer.json", Content(5000, 4)}};

  std::string Listing() const {
    std::vector<ListedFile> listed;
    for (const auto& [path, content] : files) listed.push_back({path, Sha256Hex(content)});
    return WriteListing(listed);
  }
  std::string hex() const { return Sha256Hex(Listing()); }
  const std::string* Find(const std::string& path) const {
    for (const auto& [name, content] : files) {
      if (name == path) return &content;
    }
    return nullptr;
  }
  void ExpectIn(const std::string& folder) const {
    for (const auto& [path, content] : files)
      EXPECT_EQ(tests::ReadFile(folder + "/" + path), content) << path;
  }
};

TEST_F(WeightsFetch, AFolderByItsListing) {
  const Tree tree;
  tests::FileServer server([&](const Request& request) -> Reply {
    if (request.target == "/m/SHA256SUMS") return {.body = tree.Listing()};
    const std::string* const content = tree.Find(request.target.substr(3));
    return content == nullptr ? Reply{.status = 404} : tests::FileServer::Ranged(request, *content);
  });
  const Source source = HttpSource{.url = server.url("/m"), .listing = "SHA256SUMS"};
  auto fetched = FetchWeights(OrderOf(store_path_, source, tree.hex()), Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  tree.ExpectIn(fetched->weights.folder);
  // A listing of other files is refused before any of them is fetched.
  fetched = FetchWeights(OrderOf(store_path_, source, std::string(64, 'b')), Hasty());
  EXPECT_EQ(Why(fetched), fmt::format("{} lists files whose digest is sha256:{}, and should be sha256:{}",
                                      server.url("/m/SHA256SUMS"), tree.hex(), std::string(64, 'b')));
}

TEST_F(WeightsFetch, ARepositoryOfHuggingFacesLayout) {
  const Tree tree;
  const std::string api = "/api/models/org/chat/tree/0123abc";
  tests::FileServer server([&](const Request& request) -> Reply {
    if (request.Field("authorization") != "Bearer hf_1") return {.status = 401};
    if (request.target == api + "?recursive=true") {
      return {
          .fields = {{"link", fmt::format("<{}{}?recursive=true&cursor=x>; rel=\"next\"",
                                          "http://" + request.Field("host"), api)}},
          .body = fmt::format(
              R"([{{"type":"directory","path":"sub","size":0}},{{"type":"file","path":"config.json","size":2,"oid":"git"}},)"
              R"({{"type":"file","path":"model-00001.safetensors","size":{},"oid":"git","lfs":{{"oid":"{}","size":1,"pointerSize":2}}}}])",
              tree.files[1].second.size(), Sha256Hex(tree.files[1].second))};
    }
    if (request.path() == api) {
      return {.body = fmt::format(R"([{{"type":"file","path":"sub/tokenizer.json","size":{},"oid":"git"}},)"
                                  R"({{"type":"file","path":"README.md","size":3,"oid":"git"}}])",
                                  tree.files[2].second.size())};
    }
    const std::string base = "/org/chat/resolve/0123abc/";
    const std::string* const content =
        request.target.starts_with(base) ? tree.Find(request.target.substr(base.size())) : nullptr;
    return content == nullptr ? Reply{.status = 404} : tests::FileServer::Ranged(request, *content);
  });
  const Source source = HuggingFaceSource{.url = server.url(),
                                          .repository = "org/chat",
                                          .revision = "0123abc",
                                          .token = "hf_1",
                                          .include = {"*.json", "*.safetensors"}};
  const auto fetched = FetchWeights(OrderOf(store_path_, source, tree.hex()), Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  tree.ExpectIn(fetched->weights.folder);
}

TEST_F(WeightsFetch, AnOciArtifactWithATokenOfItsRegistry) {
  const Tree tree;
  std::string layers;
  for (const auto& [path, content] : tree.files) {
    layers += fmt::format(
        R"({}{{"mediaType":"application/octet-stream","digest":"sha256:{}","size":{},"annotations":{{"org.opencontainers.image.title":"{}"}}}})",
        layers.empty() ? "" : ",", Sha256Hex(content), content.size(), path);
  }
  const std::string manifest = fmt::format(R"({{"schemaVersion":2,"layers":[{}]}})", layers);
  std::atomic<int> tokens = 0;
  tests::FileServer server([&](const Request& request) -> Reply {
    if (request.path() == "/token") {
      EXPECT_EQ(request.Field("authorization"), "Basic bWU6c2VjcmV0");
      EXPECT_EQ(request.target, "/token?service=reg&scope=repository%3Aorg%2Fchat%3Apull");
      return {.body = fmt::format(R"({{"token":"t{}"}})", ++tokens)};
    }
    if (request.Field("authorization") != fmt::format("Bearer t{}", tokens.load())) {
      return {.status = 401,
              .fields = {{"www-authenticate", fmt::format(R"(Bearer realm="http://{}/token",service="reg")",
                                                          request.Field("host"))}}};
    }
    if (request.target == "/v2/org/chat/manifests/sha256:" + Sha256Hex(manifest)) return {.body = manifest};
    for (const auto& [path, content] : tree.files) {
      if (request.target == "/v2/org/chat/blobs/sha256:" + Sha256Hex(content))
        return tests::FileServer::Ranged(request, content);
    }
    return {.status = 404};
  });
  const Source source =
      OciSource{.registry = server.url(), .repository = "org/chat", .username = "me", .password = "secret"};
  const auto fetched = FetchWeights(OrderOf(store_path_, source, Sha256Hex(manifest)), Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  tree.ExpectIn(fetched->weights.folder);
  EXPECT_EQ(tokens, 1);
}

TEST_F(WeightsFetch, ObjectsOfABucketWithSignedRequests) {
  const Tree tree;
  tests::FileServer server([&](const Request& request) -> Reply {
    if (!request.Field("authorization").starts_with("AWS4-HMAC-SHA256 Credential=AK/"))
      return {.status = 403};
    if (request.path() == "/models") {
      std::string contents = "<Contents><Key>chat/</Key><Size>0</Size></Contents>";
      for (const auto& [path, content] : tree.files)
        contents +=
            fmt::format("<Contents><Key>chat/{}</Key><Size>{}</Size></Contents>", path, content.size());
      return {.body =
                  "<ListBucketResult><IsTruncated>false</IsTruncated>" + contents + "</ListBucketResult>"};
    }
    const std::string base = "/models/chat/";
    const std::string* const content =
        request.target.starts_with(base) ? tree.Find(request.target.substr(base.size())) : nullptr;
    return content == nullptr ? Reply{.status = 404} : tests::FileServer::Ranged(request, *content);
  });
  const Source source = S3Source{
      .endpoint = server.url(), .bucket = "models", .prefix = "chat", .access_key = "AK", .secret_key = "SK"};
  const auto fetched = FetchWeights(OrderOf(store_path_, source, tree.hex()), Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  tree.ExpectIn(fetched->weights.folder);
}

TEST_F(WeightsFetch, AFolderOfThisMachine) {
  const Tree tree;
  for (const auto& [path, content] : tree.files) {
    const std::string file = folder_ / ("nfs/" + path);
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }
  EXPECT_EQ(DigestOfPath(folder_ / "nfs").value(), "sha256:" + tree.hex());
  const auto fetched = FetchWeights(OrderOf(store_path_, PathSource{folder_ / "nfs"}, tree.hex()), Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  tree.ExpectIn(fetched->weights.folder);
}

TEST_F(WeightsFetch, ChangedFilesOfTheStoreAreFound) {
  const std::string content = Content(1000);
  tests::FileServer server([&](const Request&) { return Reply{.body = content}; });
  const std::string hex = Sha256Hex(content);
  ASSERT_TRUE(FetchOnce(OrderOf(store_path_, HttpSource{.url = server.url("/m")}, hex)).ok());
  const auto store = weights::Store::Open(store_path_);
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(VerifyWeights(*store, "sha256-" + hex).ok());
  std::ofstream(store_ / ("sha256-" + hex + "/m"), std::ios::app) << 'x';
  EXPECT_TRUE(absl::IsDataLoss(VerifyWeights(*store, "sha256-" + hex)));
}

TEST_F(WeightsFetch, WhatIsHeldDoesNotLeaveForAnother) {
  const std::string first = Content(2 << 20, 1);
  const std::string second = Content(2 << 20, 2);
  tests::FileServer server([&](const Request& request) {
    return tests::FileServer::Ranged(request, request.target == "/1" ? first : second);
  });
  WeightsOrder one = OrderOf(store_path_, HttpSource{.url = server.url("/1")}, Sha256Hex(first));
  WeightsOrder two = OrderOf(store_path_, HttpSource{.url = server.url("/2")}, Sha256Hex(second));
  one.size = two.size = 3 << 20;
  const std::string lease = store_ / fmt::format(".tidegate/sha256-{}.lease", Sha256Hex(first));
  {
    const auto held = FetchWeights(one, Hasty());
    ASSERT_TRUE(held.ok()) << held.status();
    // As if it had been used long ago.
    fs::last_write_time(lease, fs::file_time_type::clock::now() - std::chrono::hours(1));
    const auto refused = FetchWeights(two, Hasty());
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << Why(refused);
    EXPECT_TRUE(fs::exists(held->weights.folder));
  }
  fs::last_write_time(lease, fs::file_time_type::clock::now() - std::chrono::hours(1));
  one.pins = two.pins = {one.digest};
  EXPECT_TRUE(absl::IsResourceExhausted(FetchWeights(two, Hasty()).status()));
  two.pins.clear();
  const auto fetched = FetchWeights(two, Hasty());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_FALSE(fs::exists(WeightsFolder(store_path_, one.digest)));
  EXPECT_EQ(fetched->holds, std::vector<std::string>{Sha256Hex(second)});
}

TEST_F(WeightsFetch, AFullDiskIsToldAndLeavesNothing) {
  const tests::SmallDisk disk(100);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system is not allowed here";
  const std::string content = Content(60 << 20);
  tests::FileServer server([&](const Request&) { return Reply{.body = content}; });
  const WeightsOrder order = OrderOf(disk.path(), HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  const auto fetched = FetchWeights(order, Hasty());
  EXPECT_TRUE(absl::IsResourceExhausted(fetched.status())) << Why(fetched);
  EXPECT_NE(Why(fetched).find("60.0 MiB are needed, and the store's disk has"), std::string::npos)
      << Why(fetched);
  EXPECT_TRUE(fs::is_empty(disk.path() + "/.tidegate/parts"));
}

TEST_F(WeightsFetch, ALimitOfFilesIsToldAndLeavesNothing) {
  const std::string content = Content(4 << 20);
  tests::FileServer server(
      [&](const Request& request) { return tests::FileServer::Ranged(request, content); });
  const WeightsOrder order = OrderOf(store_path_, HttpSource{.url = server.url("/m")}, Sha256Hex(content));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{.rlim_cur = 2 << 20, .rlim_max = 2 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
    const auto fetched = FetchWeights(order, Hasty());
    _exit(absl::IsResourceExhausted(fetched.status()) ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(HasParts());
}

TEST_F(WeightsFetch, PathsOfServersCannotLeaveTheFolder) {
  tests::FileServer server([&](const Request&) {
    return Reply{.body = R"([{"type":"file","path":"../../evil","size":2,"oid":"x"}])"};
  });
  const Source source = HuggingFaceSource{.url = server.url(), .repository = "a/b", .revision = "main"};
  const auto fetched = FetchWeights(OrderOf(store_path_, source, std::string(64, 'a')), Hasty());
  EXPECT_TRUE(absl::IsFailedPrecondition(fetched.status())) << Why(fetched);
  EXPECT_NE(Why(fetched).find("\"../../evil\" must consist of names"), std::string::npos) << Why(fetched);
}

TEST(WeightsProgress, TheLastWholeLineCounts) {
  FetchProgress progress{.phase = FetchPhase::kFetching, .bytes = 5, .of = 9};
  progress.at = conf::FromUnixMicros(1'764'223'875'123'000);
  const std::string first = ProgressLine(progress);
  EXPECT_EQ(first,
            "tidegate-weights: {\"bytes\":5,\"of\":9,\"phase\":\"fetching\",\"unix_ms\":1764223875123}\n");
  progress.phase = FetchPhase::kFetched;
  progress.transferred = 9;
  progress.holds = {"ab"};
  progress.neighbours = 5;
  progress.notes = std::vector<std::string>(20, std::string(1000, 'n'));
  const std::string log =
      first + ProgressLine(progress) + "engine says tidegate-weights: {}\ntidegate-weights: {\"phase";
  const auto last = LastProgress(log);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->phase, FetchPhase::kFetched);
  EXPECT_EQ(last->transferred, 9U);
  EXPECT_EQ(last->neighbours, 5U);
  EXPECT_EQ(last->notes, std::vector<std::string>(16, std::string(600, 'n')));
  EXPECT_EQ(last->holds, std::vector<std::string>{"ab"});
  EXPECT_EQ(last->at, progress.at);
  EXPECT_FALSE(LastProgress("tidegate-weights: {\"phase\":\"sideways\"}\n"));
}

TEST(WeightsOrderText, IsReadAsItWasWritten) {
  for (const Source& source :
       {Source(HttpSource{"http://h/m", "SHA256SUMS", "t"}),
        Source(HuggingFaceSource{"https://hub", "a/b", "main", "t", {"*.json"}}),
        Source(OciSource{"https://reg", "a/b", "u", "p"}),
        Source(S3Source{"https://s3", "b", "p", "l", "r", "a", "s", "t"}), Source(PathSource{"/mnt/m"})}) {
    WeightsOrder order = OrderOf("/var/lib/weights", source, std::string(64, 'c'));
    order.pins = {order.digest};
    order.cache = "vllm-1";
    order.also = {{"sha256:" + std::string(64, 'd'), "corpus", PathSource{"/mnt/corpus"}}};
    const auto read = ReadOrder(WriteOrder(order));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(WriteOrder(*read), WriteOrder(order));
    EXPECT_EQ(read->source.index(), source.index());
    ASSERT_EQ(read->also.size(), 1U);
    EXPECT_EQ(read->also[0].name, "corpus");
  }
  EXPECT_FALSE(ReadOrder("{\"store\":\"/x\"}").ok());
}

}  // namespace
}  // namespace plugins::weights
