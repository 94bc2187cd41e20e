// CRC-32C (Castagnoli) of journal frames: detects pages that a power failure left half written. Uses the
// processor's instruction if there is one. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gateway::ledger {

// Continues from `crc` (0 at the beginning), so that a frame may be summed in pieces.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);

inline uint32_t Crc32c(std::string_view bytes) {
  return Crc32c(0, bytes.data(), bytes.size());
}

// The table-driven form, for processors without the instruction; the same result.
uint32_t Crc32cPortable(uint32_t crc, const void* data, size_t size);

}  // namespace gateway::ledger
