// Writes the size line of a chunk: "1a2b\r\n".
#pragma once

#include <cstddef>

namespace gateway {

// Room for the size line of any chunk.
inline constexpr size_t kChunkSizeRoom = 18;

// Writes the line for a chunk of `n` bytes to `to`; returns the line's length.
size_t RenderChunkSize(size_t n, char* to);

}  // namespace gateway
