#include "gateway/net/address_range.h"

#include <arpa/inet.h>

#include <algorithm>

#include "conf/text.h"

namespace gateway::net {
namespace {

constexpr int kMappedBits = 96;  // of ::ffff:0:0/96, where IPv4 addresses stand

struct Address {
  std::array<uint8_t, 16> bytes{};
  bool ipv4 = false;
};

std::optional<Address> ParseAddress(std::string_view text) {
  const std::string copy(text.substr(0, text.find('%')));  // without a zone
  Address out;
  if (inet_pton(AF_INET, copy.c_str(), out.bytes.data() + 12) == 1) {
    out.ipv4 = true;
    out.bytes[10] = out.bytes[11] = 0xff;
    return out;
  }
  if (inet_pton(AF_INET6, copy.c_str(), out.bytes.data()) == 1) return out;
  return std::nullopt;
}

bool Bit(const std::array<uint8_t, 16>& bytes, int at) {
  const auto index = static_cast<size_t>(at);
  return (bytes[index / 8] >> (7 - index % 8) & 1) != 0;
}

}  // namespace

std::optional<AddressRange> AddressRange::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<Address> address = ParseAddress(text.substr(0, slash));
  if (!address) return std::nullopt;
  AddressRange range;
  range.text_ = text;
  range.bytes_ = address->bytes;
  range.bits_ = 128;
  if (slash == std::string_view::npos) return range;
  const std::optional<int> prefix = conf::ReadNumber<int>(text.substr(slash + 1));
  if (!prefix || *prefix < 0 || *prefix > (address->ipv4 ? 32 : 128)) return std::nullopt;
  range.bits_ = *prefix + (address->ipv4 ? kMappedBits : 0);
  for (int i = range.bits_; i < 128; ++i) {
    if (Bit(range.bytes_, i)) return std::nullopt;
  }
  return range;
}

bool AddressRange::Contains(std::string_view address) const {
  const std::optional<Address> other = ParseAddress(address);
  if (!other) return false;
  for (int i = 0; i < bits_; ++i) {
    if (Bit(bytes_, i) != Bit(other->bytes, i)) return false;
  }
  return true;
}

}  // namespace gateway::net
