#include "gateway/ledger/request_id.h"

#include <algorithm>

#include "conf/hex.h"

namespace gateway::ledger {
namespace {

constexpr std::string_view kIdPrefix = "req_";
constexpr size_t kIdBytes = 16;
constexpr size_t kTimeDigits = 12;
static_assert(kIdPrefix.size() + 2 * kIdBytes == kRequestIdSize);

}  // namespace

void WriteRequestId(conf::TimePoint now, uint64_t high, uint64_t low,
                    std::array<char, kRequestIdSize>& text) {
  const auto millis = static_cast<uint64_t>(conf::ToUnixMicros(now) / 1000);
  const uint64_t first = millis << 16 | (high & 0xffff);
  std::array<uint8_t, kIdBytes> bytes{};
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(first >> (56 - 8 * i));
    bytes[8 + i] = static_cast<uint8_t>(low >> (56 - 8 * i));
  }
  conf::WriteHex(bytes, std::ranges::copy(kIdPrefix, text.data()).out);
}

std::optional<int64_t> RequestMillis(std::string_view id) {
  if (id.size() != kRequestIdSize || !id.starts_with(kIdPrefix)) return std::nullopt;
  int64_t millis = 0;
  for (size_t i = kIdPrefix.size(); i < id.size(); ++i) {
    const int digit = id[i] >= 'A' && id[i] <= 'F' ? -1 : conf::HexDigit(id[i]);
    if (digit < 0) return std::nullopt;
    if (i < kIdPrefix.size() + kTimeDigits) millis = millis * 16 + digit;
  }
  return millis;
}

}  // namespace gateway::ledger
