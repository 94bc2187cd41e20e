#include "gateway/ledger/crc32c.h"

#include <array>
#include <cstring>

namespace gateway::ledger {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cHardware(uint32_t crc, const void* data, size_t size) {
  const char* p = static_cast<const char*>(data);
  uint64_t sum = ~crc;
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    sum = __builtin_ia32_crc32di(sum, word);
  }
  auto low = static_cast<uint32_t>(sum);
  for (; size > 0; --size, ++p) low = __builtin_ia32_crc32qi(low, static_cast<unsigned char>(*p));
  return ~low;
}
const bool kHasHardware = __builtin_cpu_supports("sse4.2") != 0;
#endif

}  // namespace

uint32_t Crc32cPortable(uint32_t crc, const void* data, size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size > 0; --size, ++p) crc = (crc >> 8) ^ kTable[(crc ^ *p) & 0xFF];
  return ~crc;
}

uint32_t Crc32c(uint32_t crc, const void* data, size_t size) {
#if defined(__x86_64__)
  if (kHasHardware) return Crc32cHardware(crc, data, size);
#endif
  return Crc32cPortable(crc, data, size);
}

}  // namespace gateway::ledger
