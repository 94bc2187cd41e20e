#include "gateway/request/chunk_size.h"

#include <charconv>

namespace gateway {

size_t RenderChunkSize(size_t n, char* to) {
  char* end = std::to_chars(to, to + 16, n, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return static_cast<size_t>(end - to);
}

}  // namespace gateway
