#include "plugins/weights/listing.h"

#include <gtest/gtest.h>

#include "plugins/weights/digest.h"
#include "plugins/weights/s3_listing.h"
#include "plugins/weights/s3_signature.h"

namespace plugins::weights {
namespace {

const std::string kA(64, 'a');
const std::string kB(64, 'b');

TEST(WeightsListing, IsSortedByThePathsBytes) {
  EXPECT_EQ(WriteListing({{"b", kA}, {"a/c", kB}, {"a", kB}}), kB + "  a\n" + kB + "  a/c\n" + kA + "  b\n");
}

TEST(WeightsListing, ReadsWhatSha256sumWrites) {
  const auto files = ReadListing(kA + "  ./x/model.safetensors\n" + kB + " *config.json\r\n\n", "SHA256SUMS");
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[0], (ListedFile{"x/model.safetensors", kA}));
  EXPECT_EQ((*files)[1], (ListedFile{"config.json", kB}));
}

TEST(WeightsListing, RefusesWhatIsUnsafeOrMalformed) {
  const struct {
    std::string text;
    std::string why;
  } kCases[] = {
      {"", "SHA256SUMS: lists no file"},
      {kA + " a\n", "line 1: must be \"SHA256  PATH\""},
      {std::string(64, 'g') + "  a\n", "line 1: must be"},
      {kA + "  ../etc/passwd\n", "without \".\", \"..\" and empty ones"},
      {kA + "  /etc/passwd\n", "is absolute"},
      {kA + "  a//b\n", "without"},
      {kA + "  a\n" + kB + "  ./a\n", "line 2: a is listed twice"},
      {kA + "  a\tb\n", "control character"},
  };
  for (const auto& one : kCases) {
    const auto files = ReadListing(one.text, "SHA256SUMS");
    ASSERT_FALSE(files.ok()) << one.text;
    EXPECT_NE(files.status().message().find(one.why), absl::string_view::npos) << files.status();
  }
}

TEST(WeightsDigest, IsSha256InLowerCaseHex) {
  EXPECT_EQ(HexOfDigest("sha256:" + kA), kA);
  EXPECT_FALSE(HexOfDigest(kA));
  EXPECT_FALSE(HexOfDigest("sha256:" + std::string(64, 'A')));
  EXPECT_FALSE(HexOfDigest("sha256:" + kA + "a"));
  Hasher hasher;
  hasher.Update("a");
  hasher.Update("bc");
  EXPECT_EQ(hasher.TakeHex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hasher.TakeHex(), Sha256Hex(""));
}

TEST(S3Signature, IsThatOfTheReferenceExamples) {
  const S3Keys keys{"us-east-1", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", {}};
  const conf::TimePoint at = *conf::ParseTime("2013-05-24T00:00:00Z");
  const auto signature = [&](const std::string& query) {
    const auto fields = SignS3({"GET", "examplebucket.s3.amazonaws.com", "/", query}, keys, at);
    const std::string& value = fields.front().second;
    return value.substr(value.find("Signature=") + 10);
  };
  EXPECT_EQ(signature("lifecycle"), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature("max-keys=2&prefix=J"),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  // With a body, as the package aws4 of npm computes it.
  const auto put = SignS3({.method = "PUT",
                           .host = "examplebucket.s3.amazonaws.com",
                           .path = "/p/test%24file.text",
                           .query = {},
                           .body_sha256 = Sha256Hex("Welcome to Amazon S3.")},
                          keys, at);
  EXPECT_TRUE(put.front().second.ends_with(
      "Signature=f666d8558f6e579ae300e8ea5e34d9298790dc877f827759c7b42580ceaa3c3b"))
      << put.front().second;
}

TEST(S3Listing, ReadsKeysAndTheNextPage) {
  const auto page = ReadS3Page(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a&amp;b</NextContinuationToken>"
      "<Contents><Key>m/x%20y.json</Key><Size>12</Size></Contents>"
      "<Contents><Key>m/z</Key><Size>0</Size></Contents></ListBucketResult>");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 2U);
  EXPECT_EQ(page->objects[0].key, "m/x y.json");
  EXPECT_EQ(page->objects[0].size, 12U);
  EXPECT_EQ(page->next, "a&b");
  EXPECT_FALSE(ReadS3Page("<Error><Code>AccessDenied</Code></Error>"));
}

}  // namespace
}  // namespace plugins::weights
