#include "gateway/batches/kept_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gateway/batches/frame.h"
#include "tests/support/temp_dir.h"

namespace gateway::batches {
namespace {

ledger::ContentKeyRef KeyNamed(const std::string& id) {
  return std::make_shared<ledger::ContentKey>(id, ledger::ContentKey::RandomBytes());
}

std::string TextOf(KeptFile& file, uint64_t offset = 0) {
  std::string text(file.bytes() - offset + 10, '\0');
  text.resize(file.ReadAt(offset, text).value());
  return text;
}

std::string Long(char first) {
  std::string text(3 * kFrameText + 17, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(first + static_cast<char>(i % 23));
  return text;
}

class KeptFileTest : public testing::TestWithParam<bool> {
 protected:
  absl::StatusOr<KeptFile> Open(KeptFile::Access access = KeptFile::Access::kAppend) const {
    return KeptFile::Open(path_, key_, access);
  }

  const tests::TempDir dir_;
  const std::string path_ = dir_ / "file";
  const ledger::ContentKeyRef key_ = GetParam() ? KeyNamed("k") : nullptr;
};

INSTANTIATE_TEST_SUITE_P(Bytes, KeptFileTest, testing::Bool(),
                         [](const auto& of) { return of.param ? "Sealed" : "AsTheyAre"; });

TEST_P(KeptFileTest, WhatWasAppendedIsReadFromAnyOffset) {
  const std::string first = Long('a');
  {
    absl::StatusOr<KeptFile> file = KeptFile::Create(path_, key_);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append(first).ok());
    ASSERT_TRUE(file->Append("a line\n").ok());
    ASSERT_TRUE(file->Sync().ok());
    EXPECT_FALSE(KeptFile::Create(path_, key_).ok()) << "it is there";
  }
  absl::StatusOr<KeptFile> file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string all = first + "a line\n";
  EXPECT_EQ(file->bytes(), all.size());
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{1}, uint64_t{kFrameText - 1}, uint64_t{kFrameText}, first.size(), all.size()}) {
    EXPECT_EQ(TextOf(*file, offset), all.substr(offset)) << offset;
  }
  ASSERT_TRUE(file->Append("more").ok());
  EXPECT_EQ(TextOf(*file), all + "more");
}

TEST_P(KeptFileTest, CanBeTruncatedAnywhereAndContinuedThere) {
  const std::string text = Long('A');
  absl::StatusOr<KeptFile> file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append(text).ok());
  for (const size_t left : {text.size(), text.size() - 1, 2 * kFrameText, size_t{100}, size_t{0}}) {
    ASSERT_TRUE(file->CutTo(left).ok()) << left;
    EXPECT_EQ(TextOf(*file), text.substr(0, left));
    ASSERT_TRUE(file->Append("end").ok());
    const absl::StatusOr<KeptFile> again = Open();
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->bytes(), left + 3);
    ASSERT_TRUE(file->CutTo(left).ok());
  }
}

class SealedFile : public testing::Test {
 protected:
  const tests::TempDir dir_;
  const std::string path_ = dir_ / "file";
  const ledger::ContentKeyRef key_ = KeyNamed("k");
};

TEST_F(SealedFile, AnAppendThatACrashCutShortDoesNotCount) {
  absl::StatusOr<KeptFile> file = KeptFile::Create(path_, key_);
  ASSERT_TRUE(file->Append("first\n").ok());
  const auto whole = std::filesystem::file_size(path_);
  ASSERT_TRUE(file->Append("second\n").ok());
  const auto both = std::filesystem::file_size(path_);
  for (auto size = both - 1; size > whole; --size) {
    std::filesystem::resize_file(path_, size);
    absl::StatusOr<KeptFile> again = KeptFile::Open(path_, key_, KeptFile::Access::kAppend);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(TextOf(*again), "first\n");
    if (size > whole + 1) continue;
    ASSERT_TRUE(again->CutTo(again->bytes()).ok());
    ASSERT_TRUE(again->Append("other\n").ok());
    EXPECT_EQ(TextOf(*again), "first\nother\n");
  }
  // Its length is there, and its text is not.
  std::filesystem::resize_file(path_, whole);
  std::filesystem::resize_file(path_, both);
  EXPECT_EQ(KeptFile::Open(path_, key_, KeptFile::Access::kRead)->bytes(), 6u);
}

TEST_F(SealedFile, AChangedOrMovedFrameIsNotRead) {
  absl::StatusOr<KeptFile> file = KeptFile::Create(path_, key_);
  ASSERT_TRUE(file->Append("one1").ok());
  const auto frame = std::filesystem::file_size(path_);
  ASSERT_TRUE(file->Append("two2").ok());
  ASSERT_TRUE(file->Append("end").ok());
  std::string bytes;
  {
    std::ifstream in(path_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto read_first = [&](const std::string& changed) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << changed;
    absl::StatusOr<KeptFile> opened = KeptFile::Open(path_, key_, KeptFile::Access::kRead);
    std::string text(4, '\0');
    return opened->ReadAt(0, text).status();
  };
  EXPECT_TRUE(read_first(bytes).ok());
  EXPECT_TRUE(absl::IsDataLoss(
      read_first(bytes.substr(frame, frame) + bytes.substr(0, frame) + bytes.substr(2 * frame))));
  std::string changed = bytes;
  changed[frame - 1] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(read_first(changed)));
}

TEST_F(SealedFile, WithAnotherKeyItIsNoEmptyFile) {
  absl::StatusOr<KeptFile> file = KeptFile::Create(path_, key_);
  ASSERT_TRUE(file->Append("one").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_TRUE(absl::IsDataLoss(KeptFile::Open(path_, KeyNamed("other"), KeptFile::Access::kAppend).status()));
}

}  // namespace
}  // namespace gateway::batches
