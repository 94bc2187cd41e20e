// A range of IP addresses, as in an allow-list: "10.0.0.0/8", "2001:db8::/32", or one address. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::net {

class AddressRange {
 public:
  // Absent for other text, and for a range whose address has bits behind its prefix.
  static std::optional<AddressRange> Parse(std::string_view text);

  // Also for an IPv4 address that is written as an IPv6 one. False for text that is no address.
  bool Contains(std::string_view address) const;

  const std::string& text() const { return text_; }
  bool operator==(const AddressRange&) const = default;

 private:
  std::string text_;
  std::array<uint8_t, 16> bytes_{};  // IPv4 as ::ffff:a.b.c.d
  int bits_ = 0;
};

}  // namespace gateway::net
