// ResultPart: a piece of a result file of a shared batch, as an object in the bucket. The parts of a file follow one
// another, and together they are the file.
//
// Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gateway::batches {

// How far a kept file reaches.
struct FileExtent {
  uint64_t bytes = 0;   // of its text
  uint64_t stored = 0;  // as it lies on the disk and in the bucket

  bool operator==(const FileExtent&) const = default;
};

struct ResultPart {
  std::string object = {};  // its name in the bucket
  FileExtent extent = {};   // of this part alone

  bool operator==(const ResultPart&) const = default;
};

template <class O>
constexpr void Bind(O& o, FileExtent& extent) {
  o.Required("bytes", extent.bytes);
  o.Required("stored", extent.stored);
}

template <class O>
constexpr void Bind(O& o, ResultPart& part) {
  o.Required("object", part.object);
  o.Inline(part.extent);
}

using ResultParts = std::vector<ResultPart>;

// Of all of them together.
FileExtent ExtentOf(std::span<const ResultPart> parts);

// A part that comes to these replaces the last of them while they are at most twice as large as itself, so a file
// of N bytes has about log N parts, and a byte is uploaded about as often. No part grows above kMostPartBytes by
// that.
inline constexpr uint64_t kMostPartBytes = uint64_t{256} << 20;
struct NextPart {
  size_t kept = 0;       // of the parts that are there
  FileExtent from = {};  // where the new one begins
};
NextPart PlanNextPart(std::span<const ResultPart> parts, const FileExtent& end);

}  // namespace gateway::batches
