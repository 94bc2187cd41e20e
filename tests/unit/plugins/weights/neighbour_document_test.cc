#include "plugins/weights/neighbour_document.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conf/text.h"
#include "plugins/weights/byte_range.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"

namespace plugins::weights {
namespace {

const std::string kOne = Sha256Hex("one");
const std::string kTwo = Sha256Hex("two");

std::string DigestFor(std::string_view text) {
  return "sha256:" + Sha256Hex(text);
}

std::string WhyNot(const absl::StatusOr<FilePlan>& plan) {
  return plan.ok() ? "OK" : std::string(conf::Std(plan.status().message()));
}

TEST(NeighbourDocument, AListingOfTheDigestHasTheHashOfEachFile) {
  const std::string listing = WriteListing({{"b/two", kTwo}, {"one", kOne}});
  const std::string text = WriteDocument({.listing = listing, .bytes = {{kOne, 3}}});
  const auto plan = PlanOfDocument(text, DigestFor(listing), HuggingFaceSource{}, "n2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->files.size(), 2U);
  EXPECT_EQ(plan->digest, DigestOf::kListing);
  EXPECT_EQ(plan->files[0].path, "b/two");
  EXPECT_EQ(plan->files[0].sha256, kTwo);
  EXPECT_FALSE(plan->files[0].size);
  EXPECT_EQ(plan->files[1].size, 3U);
}

TEST(NeighbourDocument, OfOtherWeightsIsDataLoss) {
  const std::string listing = WriteListing({{"one", kOne}, {"two", kTwo}});
  const auto plan =
      PlanOfDocument(WriteDocument({.listing = listing}), DigestFor("x"), HuggingFaceSource{}, "n2");
  EXPECT_TRUE(absl::IsDataLoss(plan.status()));
  EXPECT_EQ(WhyNot(plan), fmt::format("n2 lists files whose digest is sha256:{}, and should be {}",
                                      Sha256Hex(listing), DigestFor("x")));
  const auto manifest = PlanOfDocument(WriteDocument({.manifest = "{}"}), DigestFor("x"), OciSource{}, "n2");
  EXPECT_TRUE(absl::IsDataLoss(manifest.status())) << WhyNot(manifest);
}

TEST(NeighbourDocument, ASingleFileGetsTheNameThatItsSourceGivesIt) {
  const std::string text = WriteDocument({.listing = WriteListing({{"weights.bin", kOne}})});
  const auto plan = PlanOfDocument(text, "sha256:" + kOne, HttpSource{.url = "https://h/m.gguf?x=1"}, "n2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->digest, DigestOf::kFile);
  EXPECT_EQ(plan->files[0].path, "m.gguf");
  EXPECT_EQ(PlanOfDocument(text, "sha256:" + kOne, PathSource{"/mnt/m.bin"}, "n2")->files[0].path, "m.bin");
  // A repository has a listing's digest, whatever its files are.
  EXPECT_TRUE(absl::IsDataLoss(PlanOfDocument(text, "sha256:" + kOne, HuggingFaceSource{}, "n2").status()));
}

TEST(NeighbourDocument, WhatIsNoDocumentIsToldWithoutItsText) {
  for (const char* const text : {"", "[]", "<html>", "{\"listing\":1,\"bytes\":{}}", "{\"bytes\":[]}"}) {
    const auto plan = PlanOfDocument(text, DigestFor("x"), OciSource{}, "n2");
    EXPECT_TRUE(absl::IsFailedPrecondition(plan.status())) << text;
    EXPECT_EQ(WhyNot(plan), "n2: the answer is not that of tidegate weights serve") << text;
  }
}

TEST(ByteRange, IsReadAsTheStandardSays) {
  const struct {
    const char* field;
    std::optional<AskedBytes> asked;
  } kCases[] = {
      {"", AskedBytes{0, 10, false}},
      {"bytes=0-", AskedBytes{0, 10, true}},
      {"bytes=3-", AskedBytes{3, 7, true}},
      {"bytes=3-5", AskedBytes{3, 3, true}},
      {"bytes=3-99", AskedBytes{3, 7, true}},
      {"bytes=-4", AskedBytes{6, 4, true}},
      {"bytes=-40", AskedBytes{0, 10, true}},
      {"bytes=10-", std::nullopt},
      {"bytes=-0", std::nullopt},
      {"bytes=5-3", AskedBytes{0, 10, false}},
      {"bytes=1-2,4-5", AskedBytes{0, 10, false}},
      {"bytes=x-", AskedBytes{0, 10, false}},
      {"bytes=-", AskedBytes{0, 10, false}},
      {"lines=1-", AskedBytes{0, 10, false}},
      {"bytes=99999999999999999999-", AskedBytes{0, 10, false}},
  };
  for (const auto& one : kCases) {
    const std::optional<AskedBytes> got = ReadRange(one.field, 10);
    ASSERT_EQ(got.has_value(), one.asked.has_value()) << one.field;
    if (!got) continue;
    EXPECT_EQ(got->first, one.asked->first) << one.field;
    EXPECT_EQ(got->count, one.asked->count) << one.field;
    EXPECT_EQ(got->part, one.asked->part) << one.field;
  }
}

}  // namespace
}  // namespace plugins::weights
