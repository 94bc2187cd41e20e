#include "gateway/ledger/request_id.h"

#include <openssl/sha.h>

#include <algorithm>

#include "conf/hex.h"

namespace gateway::ledger {
namespace {

constexpr std::string_view kIdPrefix = "req_";
constexpr size_t kIdBytes = 16;
constexpr size_t kTimeDigits = 12;
constexpr size_t kTagDigits = 4;
static_assert(kIdPrefix.size() + 2 * kIdBytes == kRequestIdSize);

// The number in the digits from `begin` to `end`; none for a text that is no id.
std::optional<uint64_t> DigitsOf(std::string_view id, size_t begin, size_t end) {
  if (id.size() != kRequestIdSize || !id.starts_with(kIdPrefix)) return std::nullopt;
  uint64_t number = 0;
  for (size_t i = kIdPrefix.size(); i < id.size(); ++i) {
    const int digit = id[i] >= 'A' && id[i] <= 'F' ? -1 : conf::HexDigit(id[i]);
    if (digit < 0) return std::nullopt;
    const size_t at = i - kIdPrefix.size();
    if (at >= begin && at < end) number = number * 16 + static_cast<uint64_t>(digit);
  }
  return number;
}

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
  const std::optional<uint64_t> millis = DigitsOf(id, 0, kTimeDigits);
  return millis ? std::optional(static_cast<int64_t>(*millis)) : std::nullopt;
}

std::optional<uint16_t> RequestTag(std::string_view id) {
  const std::optional<uint64_t> tag = DigitsOf(id, kTimeDigits, kTimeDigits + kTagDigits);
  return tag ? std::optional(static_cast<uint16_t>(*tag)) : std::nullopt;
}

uint16_t TagOfGateway(std::string_view gateway_id) {
  std::array<uint8_t, SHA256_DIGEST_LENGTH> hash{};
  SHA256(reinterpret_cast<const uint8_t*>(gateway_id.data()), gateway_id.size(), hash.data());
  return static_cast<uint16_t>(hash[0] << 8 | hash[1]);
}

}  // namespace gateway::ledger
