#include "plugins/weights/s3_bucket.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "plugins/weights/digest.h"
#include "tests/support/s3_server.h"
#include "tests/support/temp_dir.h"

namespace plugins::weights {
namespace {

using tests::S3Server;

class S3BucketTest : public ::testing::Test {
 protected:
  using Work = std::function<gateway::net::Task<absl::Status>(S3Bucket&)>;
  absl::Status Do(const Work& work) const {
    gateway::net::Loop loop([](std::exception_ptr) {});
    S3Bucket bucket(loop, options_);
    return gateway::net::Await(loop, work(bucket));
  }
  absl::Status Put(const std::string& key, const std::string& content) const {
    const std::string path = dir_ / "from";
    std::ofstream(path, std::ios::binary) << content;
    return Do([&](S3Bucket& bucket) { return bucket.Put(key, path, {}, go_on_); });
  }
  std::string Get(const std::string& key) const {
    const std::string path = dir_ / "to";
    std::filesystem::remove(path);
    const absl::Status got = Do([&](S3Bucket& bucket) { return bucket.Get(key, path, go_on_); });
    return got.ok() ? tests::ReadFile(path) : std::string(got.message());
  }
  absl::Status Remove(const std::string& key) const {
    return Do([&](S3Bucket& bucket) { return bucket.Remove(key); });
  }

  const tests::TempDir dir_;
  S3Server server_;
  S3Bucket::Options options_{.endpoint = server_.url() + "/",
                             .bucket = S3Server::kBucket,
                             .keys = {.region = S3Server::kRegion,
                                      .access_key = S3Server::kAccessKey,
                                      .secret_key = S3Server::kSecretKey},
                             .web = {.silence = std::chrono::seconds(5), .tries = 1}};
  S3Bucket::GoOn go_on_ = [] { return absl::OkStatus(); };
};

TEST_F(S3BucketTest, AnObjectIsWhatWasPutUntilItIsRemoved) {
  std::string large(3'000'000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 / 3);
  const std::pair<std::string, std::string> objects[] = {
      {"p/large", large}, {"p/empty", ""}, {"p/with space+ü", "text"}};
  for (const auto& [key, content] : objects) {
    const absl::Status put = Put(key, content);
    EXPECT_TRUE(put.ok()) << put;
    EXPECT_EQ(Get(key), content);
  }
  EXPECT_TRUE(Put("p/large", "another").ok());
  EXPECT_EQ(Get("p/large"), "another");
  for (const auto& [key, content] : objects) EXPECT_TRUE(Remove(key).ok());
  EXPECT_EQ(server_.objects().size(), 0u);
  EXPECT_TRUE(Remove("p/large").ok()) << "it is gone";
  EXPECT_NE(Get("p/large").find("answers 404"), std::string::npos);
}

TEST_F(S3BucketTest, AWrongKeyABucketThatIsMissingAndAServerThatFailsAreToldApart) {
  options_.keys.secret_key = "wrong";
  EXPECT_TRUE(absl::IsPermissionDenied(Put("k", "x")));
  options_.keys.secret_key = S3Server::kSecretKey;
  options_.bucket = "other";
  EXPECT_TRUE(absl::IsNotFound(Put("k", "x")));
  EXPECT_TRUE(absl::IsNotFound(Remove("k"))) << "another bucket may have it";
  options_.bucket = S3Server::kBucket;
  server_.FailWith(503);
  EXPECT_TRUE(absl::IsUnavailable(Put("k", "x")));
  server_.FailWith(0);
  EXPECT_TRUE(absl::IsUnavailable(Put("k", "x")));
  EXPECT_TRUE(absl::IsUnavailable(Remove("k")));
  server_.FailWith(307);
  EXPECT_TRUE(absl::IsFailedPrecondition(Put("k", "x"))) << "a body is not sent to another server";
  EXPECT_EQ(server_.objects().size(), 0u);
}

TEST_F(S3BucketTest, ATransferEndsWhenItIsToEnd) {
  EXPECT_TRUE(Put("k", "text").ok());
  go_on_ = [] { return absl::CancelledError("the gateway stops"); };
  EXPECT_TRUE(absl::IsCancelled(Put("other", "text")));
  EXPECT_EQ(Get("k"), "the gateway stops");
  EXPECT_EQ(server_.objects().size(), 1u);
}

}  // namespace
}  // namespace plugins::weights
