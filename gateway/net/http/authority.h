// Authority: the host and port that a request names, in its Host field and in an absolute target.
//
// Pure functions over views; nothing is allocated.
#pragma once

#include <optional>
#include <string_view>

namespace gateway::net::http {

// Whether `text` is a host (a name, an IPv4 address, or an IPv6 address in brackets) with an optional port.
bool IsAuthority(std::string_view text);

// The host of an authority, without its port and brackets: a view of it.
std::string_view HostOf(std::string_view authority);

// The path and query of an absolute target (`http://host/path`), a view of it; "/" where it has none. Nothing
// for a target of another form, and for one whose authority is not `host`.
std::optional<std::string_view> OriginFormOf(std::string_view target, std::string_view host);

}  // namespace gateway::net::http
