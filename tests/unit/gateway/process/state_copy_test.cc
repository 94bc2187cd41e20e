#include "gateway/process/state_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/store/kinds.h"

namespace {

using gateway::ReadStateCopy;
using gateway::StateCopy;
using gateway::WriteStateCopy;
namespace store = gateway::store;

StateCopy CopyOfTwo() {
  return {.number = 42,
          .objects = {{"key", "a \"quoted\" id", 7, "{\"x\":1}"},
                      {"secret", "s", 9, std::string("\0\xff\n", 3)}}};
}

TEST(StateCopy, IsReadAsItWasWrittenByteByByte) {
  const auto read = ReadStateCopy(WriteStateCopy(CopyOfTwo()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->number, 42u);
  EXPECT_EQ(read->objects, CopyOfTwo().objects);
}

TEST(StateCopy, AnEmptyStoreHasOne) {
  const auto read = ReadStateCopy(WriteStateCopy({}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->objects.empty());
}

TEST(StateCopy, RefusesWhatWasChangedOrCut) {
  const std::string text = WriteStateCopy(CopyOfTwo());
  std::string changed = text;
  changed[changed.find("quoted")] = 'Q';
  EXPECT_TRUE(absl::IsDataLoss(ReadStateCopy(changed).status()));
  for (const size_t left : {text.size() / 2, text.size() - 1, text.find("{\"sha256\"")})
    EXPECT_TRUE(absl::IsDataLoss(ReadStateCopy(text.substr(0, left)).status())) << left;
  EXPECT_TRUE(absl::IsDataLoss(ReadStateCopy(text + "{}\n").status()));
}

TEST(StateCopy, RefusesOtherFiles) {
  for (const char* text : {"no json\n", "{}\n", "[]\n", "{\"tidegate_state\":2}\n"})
    EXPECT_TRUE(absl::IsInvalidArgument(ReadStateCopy(text).status())) << text;
}

TEST(StateCopy, WhatAStoreHasBesideTheCopyIsRemovedAndTheRestReplaced) {
  const std::vector<store::Object> stored = {{"key", "a \"quoted\" id", 3, "old"}, {"key", "other", 4, "x"}};
  const std::vector<store::Write> writes = gateway::WritesOf(CopyOfTwo(), stored, "aa11", false);
  ASSERT_EQ(writes.size(), 3u);
  EXPECT_EQ(writes[0].replaces, 3u);
  EXPECT_EQ(writes[0].body, "{\"x\":1}");
  EXPECT_EQ(writes[1].replaces, 0u);
  EXPECT_EQ(writes[2].id, "other");
  EXPECT_FALSE(writes[2].body);
}

TEST(StateCopy, WhatBelongsToAGatewayTakesItsIdInASharedStoreAndLeavesItInAFile) {
  const StateCopy from_file{1, {{store::kPosition, "sink:x", 1, "7"}, {store::kKey, "k", 2, "b"}}};
  const auto shared = gateway::WritesOf(from_file, {}, "aa11", true);
  EXPECT_EQ(shared[0].id, "sink:x@aa11");
  EXPECT_EQ(shared[1].id, "k");
  const StateCopy from_shared{
      1, {{store::kPosition, "sink:x@aa11", 1, "7"}, {store::kPosition, "sink:x@bb22", 2, "8"}}};
  const auto file = gateway::WritesOf(from_shared, {}, "aa11", false);
  EXPECT_EQ(file[0].id, "sink:x");
  EXPECT_EQ(file[1].id, "sink:x@bb22");
}

}  // namespace
