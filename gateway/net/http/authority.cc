#include "gateway/net/http/authority.h"

#include <absl/strings/ascii.h>

#include <cstdint>

#include "conf/hex.h"
#include "conf/text.h"

namespace gateway::net::http {
namespace {

constexpr size_t kMaxHost = 255;

// Names of hosts as they occur; no percent-encoding, no sub-delimiters: names of services have none, and
// readers differ on them.
bool IsName(std::string_view text) {
  if (text.empty() || text.size() > kMaxHost) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') return false;
  }
  return true;
}

// The text between the brackets.
bool IsIpv6(std::string_view text) {
  if (text.size() < 2 || text.size() > kMaxHost) return false;
  bool colon = false;
  for (const char c : text) {
    if (conf::HexDigit(c) < 0 && c != ':' && c != '.') return false;
    colon = colon || c == ':';
  }
  return colon;
}

bool IsPort(std::string_view text) {
  return text.size() <= 5 && conf::ReadNumber<uint16_t>(text).value_or(0) > 0;
}

struct Scheme {
  std::string_view prefix;
  std::string_view default_port;  // with its colon
};
constexpr Scheme kSchemes[] = {{"http://", ":80"}, {"https://", ":443"}};

std::string_view WithoutPort(std::string_view authority, std::string_view port) {
  if (authority.ends_with(port)) authority.remove_suffix(port.size());
  return authority;
}

}  // namespace

bool IsAuthority(std::string_view text) {
  size_t host_end = text.find(':');
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos || !IsIpv6(text.substr(1, close - 1))) return false;
    host_end = close + 1;
  } else if (!IsName(text.substr(0, host_end))) {
    return false;
  }
  if (host_end >= text.size()) return true;
  return text[host_end] == ':' && IsPort(text.substr(host_end + 1));
}

std::string_view HostOf(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

std::optional<std::string_view> OriginFormOf(std::string_view target, std::string_view host) {
  for (const Scheme& scheme : kSchemes) {
    if (target.size() <= scheme.prefix.size() ||
        !conf::EqualsIgnoreCase(target.substr(0, scheme.prefix.size()), scheme.prefix))
      continue;
    const std::string_view rest = target.substr(scheme.prefix.size());
    const size_t slash = rest.find_first_of("/?#");
    const std::string_view authority = rest.substr(0, slash);
    if (!conf::EqualsIgnoreCase(WithoutPort(authority, scheme.default_port),
                                WithoutPort(host, scheme.default_port)))
      return std::nullopt;
    if (slash == std::string_view::npos) return "/";
    return rest[slash] == '/' ? std::optional(rest.substr(slash)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace gateway::net::http
