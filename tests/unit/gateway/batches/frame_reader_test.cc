#include "gateway/batches/frame_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "gateway/batches/frame.h"
#include "gateway/batches/kept_file.h"
#include "tests/support/temp_dir.h"

namespace gateway::batches {
namespace {

ledger::ContentKeyRef NewKey() {
  return std::make_shared<ledger::ContentKey>("k", ledger::ContentKey::RandomBytes());
}

// As it lies on a disk.
std::string KeptBytes(const std::string& text, const ledger::ContentKeyRef& key) {
  const tests::TempDir dir;
  absl::StatusOr<KeptFile> file = KeptFile::Create(dir / "file", key);
  EXPECT_TRUE(file.ok() && file->Append(text).ok() && file->Append("end").ok());
  return tests::ReadFile(dir / "file");
}

absl::StatusOr<std::string> ReadIn(const std::string& bytes, size_t piece, const ledger::ContentKeyRef& key) {
  FrameReader reader(key);
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    if (absl::Status fed = reader.Feed(std::string_view(bytes).substr(at, piece), text); !fed.ok())
      return fed;
  }
  EXPECT_EQ(reader.bytes(), text.size());
  return text;
}

TEST(FrameReader, OpensPiecesOfAnySize) {
  const std::string text = std::string(2 * kFrameText + 5, 'x') + "y";
  for (const ledger::ContentKeyRef& key : {NewKey(), ledger::ContentKeyRef()}) {
    const std::string bytes = KeptBytes(text, key);
    for (const size_t piece : {size_t{1}, size_t{3}, size_t{4}, size_t{1000}, kFrameText, bytes.size()})
      EXPECT_EQ(ReadIn(bytes, piece, key).value(), text + "end") << piece;
  }
}

TEST(FrameReader, SeesWhatWasChangedOrMovedAndAnotherKey) {
  const ledger::ContentKeyRef key = NewKey();
  const std::string bytes = KeptBytes("one", key);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] ^= 1;
    const absl::StatusOr<std::string> read = ReadIn(changed, 7, key);
    // A frame that claims to be longer than it is never becomes whole.
    EXPECT_TRUE(absl::IsDataLoss(read.status()) || (read.ok() && read->size() < 6)) << at;
  }
  const size_t first = kFrameExtra + 3;
  EXPECT_TRUE(absl::IsDataLoss(ReadIn(bytes.substr(first), 7, key).status())) << "at another place";
  EXPECT_TRUE(absl::IsDataLoss(ReadIn(bytes, 7, NewKey()).status()));
  EXPECT_EQ(ReadIn(bytes.substr(0, bytes.size() - 1), 7, key).value(), "one") << "the last one is not whole";
}

}  // namespace
}  // namespace gateway::batches
