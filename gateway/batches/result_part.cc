#include "gateway/batches/result_part.h"

namespace gateway::batches {

FileExtent ExtentOf(std::span<const ResultPart> parts) {
  FileExtent all;
  for (const ResultPart& part : parts) {
    all.bytes += part.extent.bytes;
    all.stored += part.extent.stored;
  }
  return all;
}

NextPart PlanNextPart(std::span<const ResultPart> parts, const FileExtent& end) {
  NextPart next{.kept = parts.size(), .from = ExtentOf(parts)};
  while (next.kept > 0) {
    const FileExtent& last = parts[next.kept - 1].extent;
    const uint64_t size = end.stored - next.from.stored;
    if (last.stored > 2 * size || size + last.stored > kMostPartBytes) break;
    next.from.bytes -= last.bytes;
    next.from.stored -= last.stored;
    --next.kept;
  }
  return next;
}

}  // namespace gateway::batches
